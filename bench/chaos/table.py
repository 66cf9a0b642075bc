"""Availability by kind of fault: one row each, of all parts of a run. PURE."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from bench.chaos.availability import Availability, Harm
from bench.swarm.columns import Spread, spread

ALL: Final = "all faults"


class Row(NamedTuple):
    """What the faults of one kind did."""

    kind: str
    faults: int
    groups: int
    """That there were, summed over the faults."""
    groups_hit: int
    """Of those, the ones that were without service for a time."""
    without: Spread
    """Time without service that one fault meant for one group, of the groups hit."""
    refused: int
    members_lost: int
    rebalances: int

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "without": self.without._asdict()}


def dots_ms(rows: Iterable[Row], found: Iterable[Availability]) -> dict[str, list[float]]:
    """By kind in the rows' order, the times without service of all groups that were hit."""
    by_kind: dict[str, list[float]] = {row.kind: [] for row in rows if row.without.values and row.kind != ALL}
    for each in found:
        for harm in each.harms:
            if harm.without_us:
                by_kind[harm.kind].append(harm.without_us / 1e3)
    return by_kind


def rows(found: Iterable[Availability]) -> list[Row]:
    """By kind, the longest time without service first; then one of all."""
    times: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    harms: dict[str, list[Harm]] = defaultdict(list)
    for each in found:
        for fault in each.faults:
            times[fault.kind] += 1
            groups[fault.kind] += each.groups
        for harm in each.harms:
            harms[harm.kind].append(harm)
    by_kind = [_row(kind, times[kind], groups[kind], harms[kind]) for kind in times]
    by_kind.sort(key=lambda row: (-(row.without.max_ms or 0), -row.refused, row.kind))
    if not by_kind:
        return []
    everything = [harm for of_kind in harms.values() for harm in of_kind]
    return [*by_kind, _row(ALL, times.total(), groups.total(), everything)]


def _row(kind: str, times: int, groups: int, harms: list[Harm]) -> Row:
    hit = [harm.without_us for harm in harms if harm.without_us]
    return Row(
        kind,
        times,
        groups,
        len(hit),
        spread(hit),
        refused=sum(harm.refused for harm in harms),
        members_lost=sum(harm.members_lost for harm in harms),
        rebalances=sum(harm.rebalances for harm in harms),
    )


HEADINGS: Final = (
    ("fault", ""),
    ("times", ""),
    ("groups hit", "of those that there were"),
    ("p50 s", "without service, of the groups hit"),
    ("p99 s", ""),
    ("max s", ""),
    ("refused", "requests told to come back, or lost"),
    ("members lost", "memberships that the coordinator knew no more"),
    ("rebalances", "of groups whose members did not change by themselves"),
)
"""Of `cells`, with what they mean."""


def cells(row: Row) -> tuple[str, ...]:
    """A row in words."""
    without = row.without
    return (
        row.kind,
        f"{row.faults:,}",
        f"{row.groups_hit:,} of {row.groups:,}",
        *(_seconds(ms) for ms in (without.p50_ms, without.p99_ms, without.max_ms)),
        f"{row.refused:,}",
        f"{row.members_lost:,}",
        f"{row.rebalances:,}",
    )


def _seconds(ms: float | None) -> str:
    return "-" if ms is None else f"{ms / 1000:,.2f}"
