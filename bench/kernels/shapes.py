"""The groups to assign: those of Kafka's `ServerSideAssignorBenchmark` (apache/kafka, jmh-benchmarks)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

BUCKETS: Final = 5
"""How many different subscriptions a heterogeneous group has: each has its own members and topics."""
RACKS: Final = 3


class Shape(NamedTuple):
    assignor: str
    """The assignor, "uniform" or "range"."""
    members: int
    topics: int
    ratio: int
    """The number of partitions per member."""
    heterogeneous: bool
    incremental: bool
    """All but the last member have their partitions, and the last one has just joined."""
    racks: bool
    """Members and partitions are in three racks. Our assignor takes racks into account then; Kafka's never
    does."""

    @property
    def topic_partitions(self) -> int:
        """The number of partitions of each topic."""
        return self.members * self.ratio // self.topics

    @property
    def partitions(self) -> int:
        return self.topic_partitions * self.topics

    def bucket_of_member(self, number: int) -> int:
        """The subscription of a member by its number; a newcomer has that of the last of the others."""
        old = self.members - 1 if self.incremental else self.members
        return min(number, old - 1) // _ceil(old, BUCKETS) if self.heterogeneous else 0

    def topics_of(self, bucket: int) -> range:
        if not self.heterogeneous:
            return range(self.topics)
        size = _ceil(self.topics, BUCKETS)
        return range(bucket * size, min((bucket + 1) * size, self.topics))


class Choice(NamedTuple):
    """Which shapes to measure."""

    members: Sequence[int]
    topics: Sequence[int]
    ratios: Sequence[int]
    racks: bool

    def shapes(self) -> Iterable[Shape]:
        """The chosen shapes that make a group: none has fewer partitions than topics. Raises ValueError for a
        choice that makes no group."""
        if min(self.members) < 2 * BUCKETS or min(self.topics) < BUCKETS or min(self.ratios) < 1:
            raise ValueError(f"at least {2 * BUCKETS} members, {BUCKETS} topics, 1 partition a member")
        for members, topics, ratio in product(self.members, self.topics, self.ratios):
            if members * ratio < topics:
                continue
            for assignor, heterogeneous, incremental, racks in product(
                ("uniform", "range"), (False, True), (False, True), (False, True) if self.racks else (False,)
            ):
                yield Shape(assignor, members, topics, ratio, heterogeneous, incremental, racks)


def _ceil(number: int, parts: int) -> int:
    return -(-number // parts)
