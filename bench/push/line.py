"""A client's connection on which both sides ask: answers go to who asked, the coordinator's requests to
whoever takes them."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import Any, Final

from actors.network.wire import Closed, parse_answer, request_frame
from actors.protocol.push_codec import is_of_coordinator

SOFTWARE: Final = ("groupd-push-consumer", "1")
"""How the client names itself: who begins with `groupd-` is told of the requests of our own."""
CALL_TIMEOUT_S: Final = 30.0


class Line:
    """One connection, made by `await Line.connect(host, port)`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._last_id = 0
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._pushed: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, host: str, port: int, client_id: str) -> Line:
        """Open a connection, and say who comes. Raises OSError, Closed, TimeoutError."""
        async with asyncio.timeout(CALL_TIMEOUT_S):
            line = cls(*await asyncio.open_connection(host, port), client_id)
        name, version = SOFTWARE
        await line.call("api_versions", 3, client_software_name=name, client_software_version=version)
        return line

    async def call(self, api: str, version: int, /, **fields: Any) -> dict[str, Any]:
        """Send one request and return its answer's fields. Raises Closed, TimeoutError."""
        correlation_id = self._next_id()
        frame = request_frame(api, version, correlation_id, self._client_id, fields)
        return parse_answer(api, version, await self._exchange(correlation_id, frame))[1]

    async def next_push(self, timeout_s: float) -> bytes:
        """Return the coordinator's next request, without the length. Raises Closed, TimeoutError."""
        async with asyncio.timeout(timeout_s):
            pushed = await self._pushed.get()
        if pushed is None:
            raise Closed
        return pushed

    def send(self, frame: bytes) -> None:
        """Send an answer, length included."""
        self._writer.write(frame)

    async def drain(self) -> None:
        """Wait until what was sent is on its way. Raises Closed."""
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise Closed from error

    async def close(self) -> None:
        """Close the connection; one that is broken already is as good as closed."""
        self._reading.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _next_id(self) -> int:
        self._last_id = (self._last_id + 1) & 0x7FFF_FFFF
        return self._last_id

    async def _exchange(self, correlation_id: int, frame: bytes) -> bytes:
        answer = self._asked[correlation_id] = asyncio.get_running_loop().create_future()
        try:
            if self._reading.done():
                raise Closed
            self.send(frame)
            await self.drain()
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answered: bytes = await answer
                return answered
        finally:
            del self._asked[correlation_id]

    async def _read(self) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                self._take(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(Closed())
            self._pushed.put_nowait(None)

    def _take(self, frame: bytes) -> None:
        if is_of_coordinator(frame):
            self._pushed.put_nowait(frame)
            return
        answer = self._asked.get(int.from_bytes(frame[:4], "big"))
        if answer is not None and not answer.done():
            answer.set_result(frame)


def fields_of(request: Any) -> dict[str, Any]:
    """Return RegisterConsumer's fields as `Line.call` takes them."""
    return {
        "group_id": request.group_id,
        "consumer_id": request.consumer_id,
        "topic_counts": tuple(
            {"topic": topic, "wildcard": is_wildcard, "streams": streams}
            for topic, is_wildcard, streams in request.topic_counts
        ),
        "auto_commit": request.auto_commit,
        "auto_offset_reset": request.auto_offset_reset,
        "session_timeout": request.session_timeout_ms,
    }
