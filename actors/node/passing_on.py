"""Have the upstream cluster answer what a node is asked as one of its brokers, with the rights of who asks.

Where the cluster knows its users, what the controller carries out goes to it in an envelope that names the
client. What any broker answers goes there as the tier's user, so the cluster's own rules are applied here
before and after: nobody gets by it what the cluster would not give him. What a broker would answer as no
coordinator is answered so, and everything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.catalog.in_front import REPEATABLE, Way, api_key_of, way_of
from actors.catalog.screening import screen_entity
from actors.ground.identity import TIER, ClientIdentity
from actors.network.frames import LENGTH_BYTES
from actors.network.wire import request_frame
from actors.protocol.api_keys import INIT_PRODUCER_ID, METADATA
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.protocol.metadata_entities import in_version, missing_topics, uncreating
from actors.security.gate import Gate
from actors.upstream.controller_way import ControllerWay
from actors.upstream.forwarding import Forwarding

CREATION_VERSION: Final = 5
"""The version of CreateTopics in which a topic has as many partitions and copies as the cluster's default
says (KIP-464)."""
CREATION_TIMEOUT_MS: Final = 10_000
_API_VERSION: Final = slice(2, 4)
"""Where the version of its API stands in a request."""
_INTERNAL: Final = "__"
"""How the names begin of topics that brokers make for themselves."""


Refuse = Callable[[ClientIdentity, Header, Any], bytes]
"""A function that returns the answer of a broker that does not coordinate what a request, decoded, is for."""


class Rights(NamedTuple):
    """What is to be known of who may do what."""

    gate: Gate
    refuse: Refuse


class PassingOn:
    """The way of clients' requests to the cluster. `rights` is None if it knows no users."""

    def __init__(self, brokers: Forwarding, controllers: ControllerWay, rights: Rights | None) -> None:
        self._brokers = brokers
        self._controllers = controllers
        self._rights = rights

    async def answer(self, identity: ClientIdentity, frame: bytes) -> bytes | None:
        """Return the answer to a request (a frame without its length), with its length; None to close the
        connection. Raises MalformedRequest, UnsupportedRequest."""
        api_key = api_key_of(frame)
        if self._rights is None or identity == TIER:
            return await self._forwarded(frame)
        way = way_of(api_key)
        if way is Way.CONTROLLER:
            return await self._controllers.forward(identity, frame, may_repeat=api_key in REPEATABLE)
        if way is Way.NOWHERE:
            raise UnsupportedRequest(f"API {api_key} in front of a cluster that knows its users")
        header, body_offset = parse_header(frame)
        entity = codec.decode_entity(header, frame, body_offset)
        if way is Way.COORDINATOR or _has_coordinator(header, entity):
            return self._rights.refuse(identity, header, codec.decode(header, frame, body_offset))
        return await self._screened(self._rights, identity, header, entity)

    async def close(self) -> None:
        """Close what is idle."""
        await self._brokers.close()
        await self._controllers.close()

    async def _forwarded(self, frame: bytes) -> bytes | None:
        """Have a broker answer a request. Raises UnsupportedRequest for one that brokers do not offer: they
        would hang up, on others' requests as well."""
        api_key, offered = api_key_of(frame), self._brokers.offered
        if offered is not None:
            least, most = offered.versions.get(api_key, (0, -1))
            version = int.from_bytes(frame[_API_VERSION], "big", signed=True)
            if not least <= version <= most:
                raise UnsupportedRequest(f"API {api_key} version {version}, which no broker offers")
        return await self._brokers.forward(frame, may_repeat=api_key in REPEATABLE)

    async def _screened(
        self, rights: Rights, identity: ClientIdentity, header: Header, entity: Any
    ) -> bytes | None:
        """Have a broker answer what the client may ask for."""
        allowed, finish = screen_entity(rights.gate, identity, header, entity)
        answer = None
        if allowed is not None:
            asked = header
            if header.api_key == METADATA:
                await self._create_missing(rights, identity, header, allowed)
                version, allowed = uncreating(header.api_version, allowed)
                asked = header._replace(api_version=version)
            told = await self._forwarded(codec.encode_request(asked, allowed)[LENGTH_BYTES:])
            if told is None:
                return None
            if finish is None and asked == header:
                return told
            answer = codec.decode_response(asked, told)
            if asked != header:
                answer = in_version(header.api_version, answer)
        if finish is not None:
            answer = finish(answer)
        return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)

    async def _create_missing(
        self, rights: Rights, identity: ClientIdentity, header: Header, entity: Any
    ) -> None:
        """Have the client itself create the topics that Metadata is to create, as far as it may: a broker
        would create them as the tier's user."""
        if not rights.gate.creates_topics:
            return
        missing = missing_topics(rights.gate.image, header.api_version, entity)
        if names := [name for name in missing if not name.startswith(_INTERNAL)]:
            await self._controllers.forward(identity, _creation(header, names), may_repeat=False)


def _has_coordinator(header: Header, entity: Any) -> bool:
    """Return whether a request is for the coordinator of a transactional id, though others of its API are
    for any broker."""
    return header.api_key == INIT_PRODUCER_ID and entity.transactional_id is not None


def _creation(header: Header, names: list[str]) -> bytes:
    """Return the request that creates topics as the cluster's defaults say."""
    topics = [
        {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
        for name in names
    ]
    fields = {"topics": topics, "timeout": CREATION_TIMEOUT_MS, "validate_only": False}
    client_id = header.client_id or ""
    return request_frame("create_topics", CREATION_VERSION, header.correlation_id, client_id, fields)[
        LENGTH_BYTES:
    ]
