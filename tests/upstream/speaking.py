"""A server that speaks Kafka's protocol over a real socket, and says what a story wants."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from kio.schema.errors import ErrorCode

from actors.network.wire import frame_of, message_class, parsed
from actors.upstream.controllers import Address
from tests.polling import reached


class Speaker:
    """The server: `_<api>` answers a request of that API."""

    apis: Mapping[int, tuple[str, int, int]]
    """API key -> the API, and the versions that are offered."""

    def __init__(self) -> None:
        self.is_garbled = False
        """Whether its answers are too short by a byte."""
        self.is_frozen = False
        """Whether it answers nothing any more, and keeps its connections."""
        self.address: Address = ("", 0)
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.address = server.sockets[0].getsockname()[:2]
        try:
            yield self
        finally:
            server.close()
            await self.hang_up()

    async def hang_up(self) -> None:
        """Close all connections. Raises what has gone wrong with one of them."""
        serving, self._serving = self._serving, set()
        for task in serving:
            task.cancel()
        for each in await asyncio.gather(*serving, return_exceptions=True):
            if isinstance(each, Exception):
                raise each

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._answer_all(reader, writer)))

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await reached(lambda: not self.is_frozen)
                answer = await self._answered(await reader.readexactly(size))
                if self.is_garbled:
                    answer = struct.pack(">i", len(answer) - 5) + answer[4:-1]
                writer.write(answer)
                await writer.drain()

    async def _answered(self, frame: bytes) -> bytes:
        api_key, version = struct.unpack_from(">hh", frame)
        api, _, _ = self.apis[api_key]
        correlation_id, asked = parsed(message_class(api, version, "request"), frame)
        fields = await getattr(self, f"_{api}")(asked)
        return frame_of(message_class(api, version, "response"), correlation_id, "", fields)

    async def _api_versions(self, asked: Any) -> dict[str, Any]:
        rows = [
            {"api_key": key, "min_version": least, "max_version": most}
            for key, (_, least, most) in self.apis.items()
        ]
        return {"error_code": ErrorCode.none, "api_keys": rows}
