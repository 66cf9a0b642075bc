"""Whether a partition has two owners, whatever protocol its group speaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.swarm.records.requests import Partition

OfGroup = tuple[str, str, int]
"""Group id, topic, partition."""


def two_owners(owned: Iterable[tuple[str, str, Iterable[Partition]]], reads: str) -> Iterator[str]:
    """Say of each partition that has two owners who they are. `owned`: group id, consumer and partitions of
    each consumer that counts; `reads`: what they do with it, in words."""
    owners: dict[OfGroup, str] = {}
    for group_id, consumer, partitions in owned:
        for topic, number in partitions:
            place = group_id, topic, number
            if place in owners:
                yield f"ownership: {place} is {reads} by {owners[place]} and {consumer}"
            owners[place] = consumer
