"""Members as real clients are: they say what software they are, count their interval from their own sending,
and, as Java's consumer, acknowledge the first assignment even if it is nothing.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Final

from actors.protocol.wire import compact_string
from bench.peers.classic import HEARTBEAT, HEARTBEAT_INTERVAL_S, ClassicMember, Group
from bench.peers.consumer import REBALANCE_TIMEOUT_MS, ConsumerMember
from bench.peers.lines import Line, request

API_VERSIONS: Final = 18
SESSION_TIMEOUT_MS: Final = 45_000
SOFTWARE: Final = ("apache-kafka-java", "4.3.1")
"""A name on the tier's list of clients whose heartbeats are held."""
_UNCHANGED: Final = b"\0"
_NOTHING: Final = b"\1"
_NO_TIMEOUT: Final = struct.pack(">i", -1)
_ERROR_AT: Final = 8


async def introduce(line: Line) -> None:
    """ApiVersions, as every client begins."""
    name, version = SOFTWARE
    body = compact_string(name) + compact_string(version) + b"\0"
    await line.ask(request(API_VERSIONS, 3, body, flexible=True))


class Consumer(ConsumerMember):
    """Of a KIP-848 group."""

    async def run(self) -> None:
        sent_at = time.monotonic()
        timeout = struct.pack(">i", REBALANCE_TIMEOUT_MS)
        await self._beat(timeout + self._topics + _UNCHANGED + compact_string("uniform") + _NOTHING)
        owes = True
        while True:
            if not owes:
                await asyncio.sleep(max(sent_at + self._interval_s - time.monotonic(), 0))
            sent_at = time.monotonic()
            owes = await self._beat(_NO_TIMEOUT + _UNCHANGED * 3 + (self._owned if owes else _UNCHANGED))


class Classic(ClassicMember):
    """Of a classic group."""

    async def _beat_while_stable(self) -> None:
        frame = request(HEARTBEAT, 3, self._identity())
        sent_at = time.monotonic()
        while True:
            await asyncio.sleep(max(sent_at + HEARTBEAT_INTERVAL_S - time.monotonic(), 0))
            sent_at = time.monotonic()
            (error,) = struct.unpack_from(">h", await self._line.ask(frame), _ERROR_AT)
            if await self._is_to_be_retried(error):
                return


class ChangingGroup(Group):
    """A classic group whose size changes."""

    def expect(self, size: int) -> None:
        """It has yet to settle, with so many members."""
        self._size = size
        self.settled.clear()
