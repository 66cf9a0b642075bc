"""Who owned which partition from when to when, and whether two did at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench.clients.member import Member

FOREVER = float("inf")


class Tenure(NamedTuple):
    """One member's ownership of one partition, in ms of the wall clock."""

    member: str
    partition: str
    start: float
    end: float
    was_lost: bool
    """The member was put out of its group, and learned of it afterwards: until then it was of an older
    generation or epoch than whoever owned the partition meanwhile."""


def tenures(member: Member) -> Iterator[Tenure]:
    """Yield a member's tenures in the order in which they end."""
    since: dict[str, float] = {}
    naps = [event["at"] for event in member.told("napped")]
    for event in member.events:
        kind = event["event"]
        if kind == "assigned":
            for partition in event["partitions"]:
                since.setdefault(partition, event["at"])
        elif kind in ("revoked", "lost"):
            for partition in set(event["partitions"]) & set(since):
                start, end = since.pop(partition), event["at"]
                # Who does not poll for longer than it may is put out, and some clients call that revoked.
                overslept = any(start <= nap <= end for nap in naps)
                yield Tenure(member.name, partition, start, end, kind == "lost" or overslept)
    closed = [event["at"] for event in member.told("closed")]
    end = closed[0] if closed else member.ended_at or FOREVER
    for partition, start in since.items():
        yield Tenure(member.name, partition, start, end, False)


def shared_at_once(members: Iterable[Member]) -> list[str]:
    """Every time that two members owned a partition in the same generation or epoch, in words."""
    by_partition: dict[str, list[Tenure]] = {}
    for member in members:
        for tenure in tenures(member):
            by_partition.setdefault(tenure.partition, []).append(tenure)
    found = []
    for partition, held in by_partition.items():
        held.sort(key=lambda tenure: tenure.start)
        for number, first in enumerate(held):
            for second in held[number + 1 :]:
                overlap_ms = min(first.end, second.end) - second.start
                if (
                    first.member != second.member
                    and overlap_ms > 0
                    and not (first.was_lost or second.was_lost)
                ):
                    found.append(
                        f"{partition}: {first.member} and {second.member} for {overlap_ms:.0f} ms"
                        f" from {second.start:.0f}"
                    )
    return found
