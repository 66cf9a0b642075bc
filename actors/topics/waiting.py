"""Have fetches wait for records: they are woken by appends, never by polling.

A waiter says how many bytes it lacks; every append to one of its partitions takes from that, and the one
that takes the last of it wakes it. There are at most as many waiters as connections, because a connection
is answered in order and so has one fetch at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

PartitionKey = tuple[bytes, int]
"""A partition of a topic: (topic id, partition)."""


class _Waiter:
    __slots__ = ("missing_bytes", "woken")

    def __init__(self, missing_bytes: int, woken: asyncio.Future[None]) -> None:
        self.missing_bytes = missing_bytes
        self.woken = woken

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


class AppendWaiters:
    """The fetches that wait for partitions of one broker."""

    def __init__(self) -> None:
        self._waiters: dict[PartitionKey, set[_Waiter]] = {}

    def __len__(self) -> int:
        """Return how many partitions somebody waits for."""
        return len(self._waiters)

    def appended(self, key: PartitionKey, size_bytes: int) -> None:
        for waiter in self._waiters.get(key, ()):
            waiter.missing_bytes -= size_bytes
            if waiter.missing_bytes <= 0:
                waiter.wake()

    def interrupt(self, key: PartitionKey) -> None:
        """Wake whoever waits for the partition, to look at it again."""
        for waiter in self._waiters.get(key, ()):
            waiter.wake()

    async def wait(self, keys: Iterable[PartitionKey], missing_bytes: int, timeout_s: float) -> None:
        """Wait until `missing_bytes` more were appended to the partitions together, or one was interrupted,
        or `timeout_s` passed. The caller looks at them again."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(missing_bytes, loop.create_future())
        watched = set(keys)
        for key in watched:
            self._waiters.setdefault(key, set()).add(waiter)
        timer = loop.call_later(timeout_s, waiter.wake)
        try:
            await waiter.woken
        finally:
            timer.cancel()
            for key in watched:
                waiters = self._waiters[key]
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[key]
