"""A load generator of raw sockets: each connection has one request outstanding and sends the next at once.

It must never be the bottleneck, so frames are prepared beforehand and answers are only counted (their error
code is looked at where it stands at a fixed place). It reports its own CPU, so that saturation shows.
"""

from __future__ import annotations

import asyncio
import resource
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """What one run did."""

    requests: int
    errors: int
    seconds: float
    own_cpu_s: float
    latencies_us: list[int]
    """Every 64th answer's."""


class _Loop(asyncio.Protocol):
    def __init__(self, frames: Sequence[bytes], error_at: int | None, until: float) -> None:
        self._frames = frames
        self._error_at = error_at
        self._until = until
        self._position = 0
        self._buffer = b""
        self._sent_at = 0.0
        self.requests = 0
        self.errors = 0
        self.latencies_us: list[int] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">i", self._buffer)
            if len(self._buffer) < size + 4:
                return
            self._count(self._buffer[4 : size + 4])
            self._buffer = self._buffer[size + 4 :]
            if time.monotonic() >= self._until:
                self._transport.close()
                return
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _count(self, answer: bytes) -> None:
        self.requests += 1
        if self._error_at is not None and answer[self._error_at : self._error_at + 2] != b"\0\0":
            self.errors += 1
        if self.requests % 64 == 0:
            self.latencies_us.append(int((time.monotonic() - self._sent_at) * 1e6))

    def _send(self) -> None:
        self._sent_at = time.monotonic()
        self._transport.write(self._frames[self._position])
        self._position = (self._position + 1) % len(self._frames)


async def run(
    targets: Sequence[tuple[str, int, Sequence[bytes]]], seconds: float, error_at: int | None
) -> Load:
    """Drive every (host, port, frames) on a connection of its own for `seconds`.

    `error_at`: where the answer's error code stands, counted behind the length prefix; None: not looked at.
    """
    loop = asyncio.get_running_loop()
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.monotonic()
    protocols = []
    for host, port, frames in targets:
        _, protocol = await loop.create_connection(
            lambda frames=frames: _Loop(frames, error_at, started + seconds),  # type: ignore[misc]
            host,
            port,
        )
        protocols.append(protocol)
    await asyncio.wait_for(asyncio.gather(*(protocol.done for protocol in protocols)), seconds + 30)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return Load(
        requests=sum(protocol.requests for protocol in protocols),
        errors=sum(protocol.errors for protocol in protocols),
        seconds=time.monotonic() - started,
        own_cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        latencies_us=[us for protocol in protocols for us in protocol.latencies_us],
    )
