"""What one node asks of another's broker: requests of Kafka's protocol on the other's own port, signed.

Brokers ask each other in transactions whether a partition is part of one, and to write its markers. The
signature is in the place of the client id: whoever knows the tier's secret has made the request, whatever
connection it came on.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

from actors.catalog.codec import build, decode_response, encode_request, request_class
from actors.catalog.headers import parse_header
from actors.ground.limits import FRAME_BYTES_MAX, TRANSPORT_QUEUE_BYTES_MAX
from actors.network.certificates import Certificates
from actors.protocol.api_keys import API_VERSIONS
from actors.protocol.errors import MalformedRequest
from actors.protocol.header import Header

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 2.0
ASKED_MAX: Final = 10_000
"""How many requests to one node may wait for their answer; beyond it the connection is given up."""
_PREFIX_BYTES: Final = 4
_SIGNED: Final = "groupd:"


def signed_request(secret: bytes, header: Header, entity: Any) -> bytes:
    """Return the whole frame of a signed request, length prefix included."""
    unsigned = encode_request(header._replace(client_id=""), entity)[_PREFIX_BYTES:]
    _, body_offset = parse_header(unsigned)
    return encode_request(
        header._replace(client_id=_signature(secret, header, unsigned[body_offset:])), entity
    )


def is_signed(secret: bytes, header: Header, frame: bytes, body_offset: int) -> bool:
    """Return whether a node of the tier has made this request (a frame without its length prefix)."""
    if not header.client_id.startswith(_SIGNED):
        return False
    expected = _signature(secret, header, frame[body_offset:])
    return hmac.compare_digest(header.client_id.encode(), expected.encode())


def _signature(secret: bytes, header: Header, body: bytes) -> str:
    text = b"%d %d %d " % (header.api_key, header.api_version, header.correlation_id) + body
    return _SIGNED + hmac.new(secret, text, hashlib.sha256).hexdigest()


class Peers:
    """The connections to the other nodes' brokers, made when first needed and again when lost."""

    def __init__(
        self,
        secret: bytes,
        address_of: Callable[[int], tuple[str, int]],
        certificates: Certificates | None = None,
    ) -> None:
        """Connect by TLS if there are `certificates`: the others' ports then speak it, as this one's does."""
        self._secret = secret
        self._address_of = address_of
        self._certificates = certificates
        self._connections: dict[int, asyncio.Task[_Peer]] = {}

    async def ask(self, node_id: int, api_key: int, api_version: int, entity: Any, timeout_s: float) -> Any:
        """Return the answer as kio's entity; None if there is none in time. What was asked may still be done
        then: only ask for what may be done twice."""
        try:
            async with asyncio.timeout(timeout_s):
                peer = await self._peer(node_id)
                return await peer.ask(api_key, api_version, entity)
        except (OSError, MalformedRequest) as error:  # a TimeoutError is an OSError
            self._drop(node_id, str(error) or type(error).__name__)
            return None

    def close(self) -> None:
        for node_id in list(self._connections):
            self._drop(node_id, "the broker stops")

    async def _peer(self, node_id: int) -> _Peer:
        task = self._connections.get(node_id)
        if task is None or (task.done() and (not _is_made(task) or task.result().is_closed)):
            tls = None if self._certificates is None else self._certificates.contexts.client
            task = asyncio.ensure_future(_connected(self._secret, self._address_of(node_id), tls))
            self._connections[node_id] = task
        await asyncio.wait([task])
        if task.cancelled():
            raise ConnectionError("dropped while it was made")
        return task.result()

    def _drop(self, node_id: int, reason: str) -> None:
        """Cut off a connection that failed or was too slow: an answer that comes late must not be late for
        everybody, and what is unsent must not be sent after it was asked again."""
        task = self._connections.pop(node_id, None)
        if task is None:
            return
        log.info("connection to the broker of node %d dropped: %s", node_id, reason)
        if task.done() and _is_made(task):
            task.result().close()
        else:
            task.cancel()


def _is_made(task: asyncio.Task[_Peer]) -> bool:
    return not task.cancelled() and task.exception() is None


async def _connected(secret: bytes, address: tuple[str, int], tls: ssl.SSLContext | None) -> _Peer:
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
    return _Peer(secret, reader, writer)


class _Peer:
    """One connection to another broker. Brokers answer in order, but each answer says which request it
    belongs to."""

    def __init__(self, secret: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_closed = False
        self._secret = secret
        self._reader = reader
        self._writer = writer
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._last_correlation_id = 0
        # A broker takes no long frame of a stranger before it has seen a short one (ApiVersions 0).
        greeting = build(request_class(API_VERSIONS, 0))
        writer.write(signed_request(secret, Header(API_VERSIONS, 0, 0), greeting))
        self._reading = asyncio.ensure_future(self._read())

    async def ask(self, api_key: int, api_version: int, entity: Any) -> Any:
        unsent_bytes = self._writer.transport.get_write_buffer_size()
        if self.is_closed or len(self._asked) >= ASKED_MAX or unsent_bytes > TRANSPORT_QUEUE_BYTES_MAX:
            raise ConnectionError("the connection is closed or takes no more requests")
        self._last_correlation_id = self._last_correlation_id % (2**31 - 1) + 1
        header = Header(api_key, api_version, self._last_correlation_id)
        answered = asyncio.get_running_loop().create_future()
        self._asked[header.correlation_id] = answered
        try:
            self._writer.write(signed_request(self._secret, header, entity))
            return decode_response(header, await answered)
        finally:
            del self._asked[header.correlation_id]

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._reading.cancel()
            self._writer.transport.abort()
            for answered in self._asked.values():
                if not answered.done():
                    answered.set_exception(ConnectionError("the connection is lost"))

    async def _read(self) -> None:
        try:
            while True:
                prefix = await self._reader.readexactly(_PREFIX_BYTES)
                size_bytes = int.from_bytes(prefix, "big")
                if size_bytes > FRAME_BYTES_MAX:
                    raise ConnectionError(f"an answer of {size_bytes} bytes")
                frame = prefix + await self._reader.readexactly(size_bytes)
                answered = self._asked.get(int.from_bytes(frame[_PREFIX_BYTES:8], "big"))
                if answered is not None and not answered.done():
                    answered.set_result(frame)
        except (OSError, EOFError):
            self.close()
