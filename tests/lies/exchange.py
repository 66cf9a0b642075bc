"""One request on its way through the lying proxy, and what may be done with it.

PURE. Frames here are without their length prefix; requests and answers are kio's entities.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.protocol import api_keys
from actors.protocol.header import Header

GROUP_REQUESTS: Final = {
    api_keys.JOIN_GROUP: "JoinGroup",
    api_keys.SYNC_GROUP: "SyncGroup",
    api_keys.HEARTBEAT: "Heartbeat",
    api_keys.LEAVE_GROUP: "LeaveGroup",
    api_keys.OFFSET_COMMIT: "OffsetCommit",
    api_keys.OFFSET_FETCH: "OffsetFetch",
    api_keys.CONSUMER_GROUP_HEARTBEAT: "ConsumerGroupHeartbeat",
}
"""The APIs that a lie may be about, with their keys."""


class Asked(NamedTuple):
    """A request that a client sent."""

    header: Header
    request: Any
    """The decoded request; it is None for ApiVersions, which passes in every version."""
    frame: bytes
    connection: int
    """A number of its own for every connection of a client."""
    at_s: float = 0.0
    """The time since the first join of the swarm's groups; 0 before it."""

    @property
    def api_key(self) -> int:
        return self.header.api_key

    @property
    def group_id(self) -> str:
        """Empty for a request that is about no single group."""
        if self.api_key == api_keys.FIND_COORDINATOR:
            return str(getattr(self.request, "key", ""))
        if self.api_key == api_keys.OFFSET_FETCH:
            groups = getattr(self.request, "groups", ())
            return str(groups[0].group_id) if groups else ""
        return str(getattr(self.request, "group_id", ""))

    @property
    def member(self) -> str:
        """The member's place in its group ("0"), which is the end of its client id."""
        return self.header.client_id.rpartition("/")[2]


def asked(frame: bytes, connection: int) -> Asked:
    """Read a request. Raises MalformedRequest, UnsupportedRequest."""
    header, at = parse_header(frame)
    is_read = header.api_key != api_keys.API_VERSIONS
    return Asked(header, codec.decode_entity(header, frame, at) if is_read else None, frame, connection)


class Pass(NamedTuple):
    """The server gets this in the request's place, and then `also`, whose answers nobody gets."""

    frame: bytes
    also: tuple[bytes, ...] = ()


class Tell(NamedTuple):
    """The server gets nothing, and the client this answer: a group API's neutral one, or kio's entity."""

    answer: Any


class Silence:
    """The server gets nothing, and neither does the client: the connection stays open."""


class HangUp:
    """The lie has the proxy end the connection."""


Doing = Pass | Tell | Silence | HangUp
SILENCE: Final = Silence()
HANG_UP: Final = HangUp()


def request_frame(header: Header, request: Any) -> bytes:
    """Return the frame of a request with this header and this body."""
    return codec.encode_request(header, request)[4:]


def answer_frame(header: Header, answer: Any) -> bytes:
    """The answer to a request, with its length prefix."""
    if isinstance(answer, tuple):  # a neutral one, of a group API
        return codec.encode(header.api_key, header.api_version, header.correlation_id, answer)
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)
