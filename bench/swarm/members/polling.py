"""A member that really reads: it polls what was fetched, and processes for as long as its plan says."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from random import Random

from bench.swarm.planning.plan import RecordsPlan
from bench.swarm.records.fetcher import Fetcher, Spans
from bench.swarm.records.requests import Partition


class Polling:
    """One member's polls; `positions` are the member's: behind what it has processed."""

    def __init__(
        self,
        plan: RecordsPlan,
        fetcher: Fetcher,
        positions: MutableMapping[Partition, int],
        chance: Random,
    ) -> None:
        self._plan = plan
        self._fetcher = fetcher
        self._positions = positions
        self._chance = chance
        self._polled: Spans = {}

    @property
    def has_records(self) -> bool:
        """Whether a poll returns at once; also tells the fetcher what there is to fetch."""
        self._fetcher.own(self._positions)
        return self._fetcher.has_records

    def poll(self) -> float:
        """How many seconds the member has to process now."""
        self._polled = self._fetcher.poll(self._plan.max_poll_records)
        count = sum(end - start for start, end in self._polled.values())
        return count * self._chance.uniform(*self._plan.process_ms) / 1000

    def is_processed(self) -> None:
        """All of the last poll, as far as it still owns it."""
        for partition, (start, end) in self._polled.items():
            if self._positions.get(partition, end) <= start:
                self._positions[partition] = end
        self._polled = {}

    def lose(self, partitions: Iterable[Partition]) -> None:
        """They are another's now."""
        for partition in partitions:
            self._polled.pop(partition, None)
            self._fetcher.forget([partition])

    def close(self) -> None:
        self._fetcher.close()
