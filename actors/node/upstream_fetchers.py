"""Which brokers of an upstream cluster fetch our log of `__consumer_offsets` as followers, and how far."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

SILENT_MS = 60_000
"""How long, in ms, a broker is remembered that fetches no more."""
FETCHERS_MAX = 1_000
"""How many brokers are remembered that fetch one partition: where nobody asks for rights, any client may say
that it is one."""


class Fetcher(NamedTuple):
    """How far a broker is."""

    broker_epoch: int
    """The epoch of the broker, as it says itself; -1 if it does not."""
    offset: int
    """It has everything before this offset."""
    fetched_ms: int


class UpstreamFetchers:
    """The brokers that fetch from this node."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._fetchers: dict[int, dict[int, Fetcher]] = {}

    def fetched(self, partition: int, broker: tuple[int, int], offset: int) -> None:
        """Note that a broker, of this id and epoch, fetches from an offset on."""
        broker_id, broker_epoch = broker
        fetchers = self._fetchers.setdefault(partition, {})
        if broker_id not in fetchers and len(fetchers) >= FETCHERS_MAX:
            del fetchers[min(fetchers, key=lambda each: fetchers[each].fetched_ms)]
        fetchers[broker_id] = Fetcher(broker_epoch, offset, self._clock_ms())

    def of(self, partition: int) -> dict[int, tuple[int, int]]:
        """Return broker id -> (broker epoch, offset) of who fetches a partition."""
        fetchers = self._fetchers.get(partition, {})
        for broker_id in [*fetchers]:
            if self._clock_ms() - fetchers[broker_id].fetched_ms > SILENT_MS:
                del fetchers[broker_id]
        return {broker_id: each[:2] for broker_id, each in fetchers.items()}
