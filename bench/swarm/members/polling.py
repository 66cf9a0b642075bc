"""A member that really reads: it polls what was fetched, and processes for as long as its plan says."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from random import Random

from bench.swarm.planning.plan import RecordsPlan
from bench.swarm.records.fetcher import Fetcher, Spans
from bench.swarm.records.requests import Partition


class Polling:
    """The poll loop of one member. `positions` are the member's: the offsets behind the records that it has
    processed."""

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
        """Whether a poll would return records at once. Asking also tells the fetcher what the member owns."""
        self._fetcher.own(self._positions)
        return self._fetcher.has_records

    def poll(self) -> float:
        """Poll. Returns how many seconds the member needs to process the records."""
        self._polled = self._fetcher.poll(self._plan.max_poll_records)
        count = sum(end - start for start, end in self._polled.values())
        return count * self._chance.uniform(*self._plan.process_ms) / 1000

    def is_processed(self) -> None:
        """Move the positions behind the records of the last poll, in partitions that the member still
        owns."""
        for partition, (start, end) in self._polled.items():
            if self._positions.get(partition, end) <= start:
                self._positions[partition] = end
        self._polled = {}

    def lose(self, partitions: Iterable[Partition]) -> None:
        """Forget the records of partitions that another member owns now."""
        for partition in partitions:
            self._polled.pop(partition, None)
            self._fetcher.forget([partition])

    def close(self) -> None:
        self._fetcher.close()
