"""Serve scrapers on the node's HTTP port: GET /metrics, nothing else, one answer a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("groupd.metrics")

REQUEST_TIMEOUT_S = 5.0
HEAD_BYTES_MAX = 8_192
CONNECTIONS_MAX = 16
"""How many connections may be open at the same time: scrapers are few."""
PATHS = ("/metrics", "/")


class MetricsEndpoint:
    """The HTTP port of a node. It serves what `text()` gives (its bytes, and their content type). `start`
    raises OSError that names the setting."""

    def __init__(self, host: str, port: int, text: Callable[[], Awaitable[tuple[bytes, str]]]) -> None:
        self._address = (host, port)
        self._text = text
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self) -> None:
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            raise OSError(f"metrics.port: cannot listen on {host}:{port}: {error}") from error
        log.info("metrics at http://%s:%d/metrics", host, self.port)

    @property
    def port(self) -> int | None:
        """Return the port it listens on; None before `start`."""
        return None if self._server is None else int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.info("a scrape was given up: %r", error)
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", b"GET only\n")
        if path not in PATHS:
            return _response("404 Not Found", b"metrics are at /metrics\n")
        body, content_type = await self._text()
        return _response("200 OK", body, content_type, with_body=method == "GET")


def _response(
    status: str, body: bytes, content_type: str = "text/plain; charset=utf-8", *, with_body: bool = True
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
