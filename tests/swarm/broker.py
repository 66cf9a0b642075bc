"""A broker that answers as it is told to: real sockets; the server's codec reads and writes."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.catalog.groups import GROUP_APIS
from actors.catalog.headers import parse_header
from actors.network.wire import from_plain, message_class
from actors.protocol.api_keys import API_VERSIONS, FIND_COORDINATOR
from actors.protocol.wire import compact_count, legacy_string

NAMED = 3
"""The first version of ApiVersions that names the client's software."""
BATCHED = 4
"""The first version of FindCoordinator that asks for several groups."""
Answer = Callable[[Any], Any]
"""Answers a neutral request, or kio's of an API that is no group's, in kind; None: hang up."""


class ScriptedBroker:
    """Use as a context manager; it is every group's coordinator."""

    def __init__(self, answer: Answer, offers: Sequence[tuple[int, int, int]] = ()) -> None:
        self.coordinator_errors: list[int] = []
        """Errors of FindCoordinator, each given once, before it is answered well."""
        self.holds: set[type[Any]] = set()
        """Requests of these classes are answered when the next one comes on their connection."""
        self.api_versions_max = 4
        self.software: list[tuple[str, str]] = []
        """The software and its version that the client of each connection named."""
        self.requests: list[Any] = []
        """Neutral group requests and kio's of other APIs, as they came; "FindCoordinator" for such a one."""
        self._open: set[Any] = set()
        self._answer = answer
        self._offers = offers
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker._serve(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def bootstrap(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def __enter__(self) -> ScriptedBroker:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()  # joins the handlers: their clients have hung up
        self._thread.join()

    def die(self) -> None:
        """End all connections and refuse new ones."""
        self._server.shutdown()
        self._server.socket.close()
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _serve(self, sock: Any) -> None:
        self._open.add(sock)
        held = b""
        with contextlib.suppress(ConnectionError):
            while (frame := _frame(sock)) is not None:
                if held:
                    sock.sendall(self._answered(held, is_released=True) or b"")
                answer = self._answered(frame)
                if answer is None:
                    break
                sock.sendall(answer)
                held = b"" if answer else frame
        self._open.discard(sock)

    def _answered(self, frame: bytes, *, is_released: bool = False) -> bytes | None:
        """Return the answer to a request, or None if the request is held."""
        header, at = parse_header(frame)
        if header.api_key == API_VERSIONS:
            return self._offered(header, frame, at)
        if header.api_key == FIND_COORDINATOR:
            self.requests.append("FindCoordinator")
            return self._found(header, frame, at)
        is_groups = header.api_key in GROUP_APIS
        request = (codec.decode if is_groups else codec.decode_entity)(header, frame, at)
        if not is_released:
            self.requests.append(request)
            if type(request) in self.holds:
                return b""
        answer = self._answer(request)
        if answer is None:
            return None
        if not is_groups:
            return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, answer)
        return codec.encode(header.api_key, header.api_version, header.correlation_id, answer)

    def _offered(self, header: Any, frame: bytes, at: int) -> bytes:
        is_known = header.api_version <= self.api_versions_max
        if header.api_version < NAMED or not is_known:
            rows = b"".join(struct.pack(">hhh", *row) for row in self._offers)
            error_code = 0 if is_known else ErrorCode.unsupported_version
            return _sized(struct.pack(">ihi", header.correlation_id, error_code, len(self._offers)) + rows)
        asked = codec.decode_entity(header, frame, at)
        self.software.append((asked.client_software_name, asked.client_software_version))
        rows = b"".join(struct.pack(">hhhx", *row) for row in self._offers)
        head = struct.pack(">ih", header.correlation_id, 0) + compact_count(len(self._offers))
        return _sized(head + rows + bytes(5))

    def _found(self, header: Any, frame: bytes, at: int) -> bytes:
        """Answer FindCoordinator: this broker is the coordinator of every group."""
        host, port = self._server.server_address[:2]
        error_code = self.coordinator_errors.pop(0) if self.coordinator_errors else 0
        if header.api_version < BATCHED:
            body = struct.pack(">iihhi", header.correlation_id, 0, error_code, -1, 1)
            return _sized(body + legacy_string(str(host)) + struct.pack(">i", port))
        keys = codec.decode_entity(header, frame, at).coordinator_keys
        found = {"node_id": 1, "host": str(host), "port": port, "error_code": ErrorCode(error_code)}
        rows = [{"key": key, "error_message": None, **found} for key in keys]
        answer = message_class("find_coordinator", header.api_version, "response")
        entity = from_plain(answer, {"throttle_time": 0, "coordinators": rows})
        return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, entity)


def _sized(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def _frame(sock: Any) -> bytes | None:
    size = _exactly(sock, 4)
    return None if size is None else _exactly(sock, int.from_bytes(size, "big"))


def _exactly(sock: Any, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            return None
        data += more
    return data
