"""A TCP connection to a broker, for one member or for many: requests go out, a greenlet gives out answers."""

from __future__ import annotations

import contextlib
import ssl
import struct
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import gevent
from gevent import socket
from gevent.event import AsyncResult
from gevent.lock import BoundedSemaphore

from actors.network.sasl_client import LoginRefused, authenticate
from actors.network.wire import parse_answer
from actors.protocol.wire import legacy_string
from bench.member.answers import is_unsupported, offered_apis
from bench.member.requests import NAMED_FROM, Request, api_versions, by_schema
from bench.swarm.planning.clients import Client
from bench.swarm.wire.clock import now_us
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

Address = tuple[str, int]
T = TypeVar("T")

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 30.0
"""request.timeout.ms of Kafka's clients."""
ANSWER_BYTES_MAX: Final = 128 * 1024 * 1024
_RECEIVE_BYTES: Final = 65_536
_CONNECTING_MAX: Final = 16
"""How many connections are opened at once: servers listen with short queues."""
_HEADER: Final = struct.Struct(">ihhi")
_SIZE: Final = struct.Struct(">i")


class Closed(Exception):
    """The connection ended before the answer came, or could not be opened; the text says why."""


class TimedOut(Exception):
    """Neither an answer nor the end of the connection came in time."""


class Pending:
    """A request that was sent."""

    __slots__ = ("answer", "answered_us", "correlation_id", "sent_us")

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id
        self.sent_us = now_us()
        self.answered_us = -1
        self.answer: AsyncResult[bytes] = AsyncResult()

    def wait(self, timeout_s: float) -> bytes:
        """The answer, correlation id first. Raises Closed, TimedOut."""
        try:
            payload: bytes = self.answer.get(timeout=timeout_s)
        except gevent.Timeout:
            raise TimedOut from None
        return payload


class Connection:
    """Open one with `connect`. Answers come in the order of the requests (W13)."""

    def __init__(self, sock: socket.socket, name: str, client_id: str) -> None:
        self.name = name
        self.offered: dict[int, tuple[int, int]] = {}
        self.is_open = True
        self._sock = sock
        client = legacy_string(client_id)
        self._plain, self._flexible = client, client + b"\0"
        self._correlation_id = 0
        self._pending: deque[Pending] = deque()
        self._sending = BoundedSemaphore(1)
        self._reader = gevent.spawn(self._read)

    def send(self, request: Request) -> Pending:
        """Send a request. Raises Closed."""
        client = self._flexible if request.is_flexible else self._plain
        with self._sending:
            if not self.is_open:
                raise Closed(f"{self.name} is closed")
            self._correlation_id += 1
            pending = Pending(self._correlation_id)
            self._pending.append(pending)
            size = 8 + len(client) + len(request.body)
            header = _HEADER.pack(size, request.api_key, request.version, self._correlation_id)
            try:
                self._sock.sendall(header + client + request.body)
            except OSError as error:
                self.close(str(error))
            except BaseException:  # somebody ends this greenlet: half a frame may have gone
                self.close("given up while sending")
                raise
        return pending

    def call(self, request: Request, timeout_s: float = REQUEST_TIMEOUT_S) -> bytes:
        """Send a request that is in no run's record, and wait for its answer. Raises Closed, TimedOut."""
        return self.send(request).wait(timeout_s)

    def close(self, reason: str = "closed here") -> None:
        """Close the connection; whoever waits for an answer is told the reason."""
        if not self.is_open:
            return
        self.is_open = False
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # closing takes a turn of gevent's loop
        self._sock.close()
        while self._pending:
            self._pending.popleft().answer.set_exception(Closed(reason))
        if self._reader is not gevent.getcurrent():
            self._reader.kill(block=False)

    def _read(self) -> None:
        buffer = bytearray()
        reason = "the broker hung up"
        try:
            while data := self._sock.recv(_RECEIVE_BYTES):
                buffer += data
                self._give_out(buffer)
        except (OSError, ValueError) as error:
            reason = str(error)
        self.close(reason)

    def _give_out(self, buffer: bytearray) -> None:
        at = 0
        while len(buffer) - at >= 4:
            (size,) = _SIZE.unpack_from(buffer, at)
            if not 4 <= size <= ANSWER_BYTES_MAX or not self._pending:
                raise ValueError(f"no Kafka answers so: {size} bytes")
            if len(buffer) - at - 4 < size:
                break
            pending = self._pending.popleft()
            pending.answered_us = now_us()
            pending.answer.set(bytes(buffer[at + 4 : at + 4 + size]))
            at += 4 + size
        del buffer[:at]


_connecting: Final = BoundedSemaphore(_CONNECTING_MAX)


def connect(
    address: Address,
    name: str,
    properties: ClientProperties,
    client_id: str | None = None,
    client: Client | None = None,
) -> Connection:
    """Open a connection and begin as every client does: with ApiVersions, then SASL. `client` is the software
    as which the client presents itself. Raises Closed, TimedOut, TierError."""
    with _connecting:
        try:
            with gevent.Timeout(CONNECT_TIMEOUT_S, TimedOut(f"{_words(address)} does not answer")):
                sock = _open(address, properties)
        except (OSError, ssl.SSLError) as error:
            raise Closed(f"{_words(address)}: {getattr(error, 'strerror', None) or error}") from None
    connection = Connection(sock, name, client_id or properties.client_id)
    try:
        connection.offered = _offered(connection, client)
        if properties.has_sasl:
            _run(authenticate(_SaslWire(connection), properties.login()))
    except LoginRefused as error:
        connection.close()
        raise TierError(str(error)) from None
    except ValueError:
        connection.close()
        raise Closed(f"{_words(address)} speaks no Kafka") from None
    except Closed as error:
        raise Closed(f"{_words(address)}, as the connection began: {error}") from None
    except TimedOut:
        connection.close()
        raise TimedOut(f"{_words(address)} does not answer as the connection begins") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _offered(connection: Connection, client: Client | None) -> dict[int, tuple[int, int]]:
    """Ask for the broker's APIs in the client software's version of ApiVersions. A broker that does not know
    that version is asked in an older one."""
    version, software = (0, None) if client is None else (client.api_versions, client.software)
    while True:
        answer = connection.call(api_versions(version, software), CONNECT_TIMEOUT_S)
        if not (version and is_unsupported(answer)):
            return offered_apis(answer, version)
        version = NAMED_FROM if version > NAMED_FROM else 0


def _open(address: Address, properties: ClientProperties) -> socket.socket:
    sock = socket.create_connection(address)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = properties.tls()
        return sock if tls is None else tls.wrap_socket(sock, server_hostname=address[0])
    except BaseException:
        sock.close()
        raise


class _SaslWire:
    """The part of `actors.network.wire.Wire` that SASL needs, on this connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def call(self, api: str, version: int, /, **fields: Any) -> dict[str, Any]:
        answer = self._connection.call(by_schema(api, version, fields), CONNECT_TIMEOUT_S)
        return parse_answer(api, version, answer)[1]


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits for an event loop")


def _words(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
