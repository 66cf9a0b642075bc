"""The other end of one connection under fire: it sends bytes and judges every byte that comes back."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, NamedTuple

from actors.catalog.table import is_supported
from actors.network.connection import _CLOSED, _WAITING
from actors.protocol import api_keys
from actors.protocol.entities import response_class
from actors.protocol.errors import MalformedRequest
from actors.protocol.push_codec import answer_id, is_of_coordinator, read_push
from actors.protocol.push_messages import ConsumedOffsets
from tests.fuzz.stack import Stack
from tests.fuzz.wrong_answers import ALL, right
from tests.protocol.answers import answer_reader

RIGHT_ANSWERS = 7
"""One of so many answers to a coordinator has something wrong."""
FRAME_BYTES_MAX = 100 * 1024 * 1024


class Wrong(AssertionError):
    """A client got bytes that are no answer to its request."""


class Asked(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    request: Any


class Client:
    """One connection to the broker (`place` -1) or to the leader of a partition."""

    def __init__(self, stack: Stack, place: int, software: tuple[str, str] = ("", "")) -> None:
        self.place = place
        self.connection, self.socket = stack.connect(place, software)
        self._unsplit = bytearray()
        self._asked: deque[Asked] = deque()
        self.answers = 0
        self.pushed = 0
        """How many requests of a coordinator came."""

    def send(self, data: bytes, request: Any = None) -> None:
        """Hand over bytes as the network would, also to a connection that is closed already."""
        self._note(data, request)
        if not self.socket.closed:
            self.connection.data_received(data)

    @property
    def waits(self) -> bool:
        """Whether the server owes this client an answer."""
        return self.connection._state == _WAITING

    @property
    def closed(self) -> bool:
        return self.socket.closed

    @property
    def unfinished(self) -> bool:
        """The server waits for the rest of a frame."""
        return bool(self._unsplit)

    def hang_up(self) -> None:
        if not self.socket.closed or self.connection._state != _CLOSED:
            self.connection.connection_lost(None)
        self.socket.closed = True

    def take(self) -> list[tuple[Asked, Any]]:
        """The answers that have come, each to its request. Raises Wrong."""
        taken = []
        written = self.socket.written
        while len(written) >= 4:
            size = struct.unpack_from(">i", written)[0]
            if len(written) < 4 + size:
                raise Wrong(f"an answer of {len(written) - 4} bytes that says it has {size}")
            frame = bytes(written[4 : 4 + size])
            del written[: 4 + size]
            if is_of_coordinator(frame) and not self._is_answer(frame):
                self._pushed(frame)
                continue
            taken.append(self._read(frame))
            self.answers += 1
        if written:
            raise Wrong(f"{len(written)} bytes that are no answer")
        return taken

    def _is_answer(self, frame: bytes) -> bool:
        """Whether a frame is the answer to a request: those of this client may have negative numbers."""
        return any(asked.correlation_id == answer_id(frame) for asked in self._asked)

    def _pushed(self, frame: bytes) -> None:
        """Answer a request of the coordinator: most often as it should be, now and then with one thing
        wrong."""
        try:
            read_push(frame)
        except MalformedRequest as error:
            raise Wrong(f"{error}: {frame.hex()}") from error
        self.pushed += 1
        number, is_right = divmod(self.pushed, RIGHT_ANSWERS)
        answer = right(frame, offsets=self._told()) if is_right else ALL[number % len(ALL)](frame)
        if not self.socket.closed:
            self.connection.data_received(answer)

    def _told(self) -> ConsumedOffsets:
        return (("t0", ((0, self.pushed), (1, -1), (99, 5))), ("no such topic", ((0, 1),)))

    def _note(self, data: bytes, request: Any) -> None:
        """Split what is sent into frames as the server will."""
        self._unsplit += data
        while len(self._unsplit) >= 4:
            (size,) = struct.unpack_from(">i", self._unsplit)
            if not 8 <= size <= FRAME_BYTES_MAX or len(self._unsplit) < 4 + size:
                return
            self._asked.append(Asked(*struct.unpack_from(">hhi", self._unsplit, 4), request))
            del self._unsplit[: 4 + size]

    def _read(self, frame: bytes) -> tuple[Asked, Any]:
        (correlation_id,) = struct.unpack_from(">i", frame)
        while self._asked:
            asked = self._asked.popleft()
            if asked.correlation_id == correlation_id:
                return asked, _decoded(asked, frame)
            if asked.api_key != api_keys.PRODUCE:  # acks=0 has no answer
                raise Wrong(f"{asked} was passed over by the answer of {correlation_id}")
        raise Wrong(f"an answer to nothing: {frame.hex()}")


def _decoded(asked: Asked, frame: bytes) -> Any:
    api_key, api_version = asked.api_key, asked.api_version
    if api_key == api_keys.API_VERSIONS and not is_supported(api_key, api_version):
        api_version = 0
    cls = response_class(api_key, api_version)
    try:
        entity, end = answer_reader(cls)(frame)
    except Exception as error:
        raise Wrong(f"API {api_key} version {api_version}: {error!r} in {frame.hex()}") from error
    if end != len(frame):
        raise Wrong(f"API {api_key} version {api_version}: {len(frame) - end} bytes too many")
    return entity
