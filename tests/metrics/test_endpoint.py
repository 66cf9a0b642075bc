"""The node's HTTP port: GET /metrics for scrapers, and nothing that a stranger could do with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.metrics.endpoint import HEAD_BYTES_MAX, MetricsEndpoint

TEXT = b"groupd_group_count 7\n"


@asynccontextmanager
async def endpoint() -> AsyncIterator[int]:
    async def text() -> tuple[bytes, str]:
        return TEXT, "text/plain; version=0.0.4"

    running = MetricsEndpoint("127.0.0.1", 0, text)
    await running.start()
    try:
        assert running.port is not None
        yield running.port
    finally:
        running.close()


async def asked(port: int, head: bytes) -> bytes:
    """Send a request and return everything that comes until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", TEXT),
        (b"GET /metrics?name=x HTTP/1.0", b"200 OK", TEXT),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"GET /etc/passwd HTTP/1.1", b"404 Not Found", b"metrics are at /metrics\n"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b"GET only\n"),
        (b"\xff\xfe", b"405 Method Not Allowed", b"GET only\n"),
    ],
)
def test_request_is_answered_and_its_connection_closed(
    request_line: bytes, status: bytes, body: bytes
) -> None:
    async def story() -> bytes:
        async with endpoint() as port:
            return await asked(port, request_line + b"\r\nHost: node\r\n\r\n")

    head, _, got = asyncio.run(story()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert got == body


def test_head_without_end_is_hung_up_on_and_the_next_scrape_is_served() -> None:
    async def story() -> tuple[bytes, bytes]:
        async with endpoint() as port:
            endless = await asked(port, b"GET /metrics HTTP/1.1\r\n" + b"x" * 2 * HEAD_BYTES_MAX)
            return endless, await asked(port, b"GET /metrics HTTP/1.1\r\n\r\n")

    endless, served = asyncio.run(story())
    assert endless == b""
    assert served.endswith(TEXT)


def test_port_that_is_taken_is_named_with_its_setting() -> None:
    async def story() -> None:
        async with endpoint() as port:

            async def nothing() -> tuple[bytes, str]:
                return b"", ""

            await MetricsEndpoint("127.0.0.1", port, nothing).start()

    with pytest.raises(OSError, match=r"metrics\.port: cannot listen on 127\.0\.0\.1:"):
        asyncio.run(story())
