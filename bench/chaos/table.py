"""Availability by kind of fault: one row each, of all parts of a run. PURE."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, Final, NamedTuple

from bench.chaos.availability import Availability, Harm
from bench.swarm.counted.columns import Spread, spread

ALL: Final = "all faults"


class Row(NamedTuple):
    """What the faults of one kind did."""

    kind: str
    faults: int
    groups: int
    """How many groups there were, summed over the faults."""
    groups_hit: int
    """How many of those groups were without service for a time, or ever after."""
    never: int
    """How many of those groups had no request served ever again."""
    each_ms: tuple[float, ...]
    """The time without service that one fault meant for one group, for those that were served again; in
    rising order."""
    without: Spread
    """The times without service of all groups that were hit; a None is longer than any time, where some were
    never served again."""
    refused: int
    members_lost: int
    rebalances: int

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        told = self._asdict()
        del told["each_ms"]
        return {**told, "without": self.without._asdict()}


def rows(found: Iterable[Availability]) -> list[Row]:
    """Rows by kind, the longest time without service first; then one row for all."""
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
    by_kind.sort(key=lambda row: (-row.never, -(row.without.max_ms or 0), -row.refused, row.kind))
    if not by_kind:
        return []
    everything = [harm for of_kind in harms.values() for harm in of_kind]
    return [*by_kind, _row(ALL, times.total(), groups.total(), everything)]


def _row(kind: str, times: int, groups: int, harms: list[Harm]) -> Row:
    never = sum(harm.never for harm in harms)
    each_us = sorted(harm.without_us for harm in harms if harm.without_us and not harm.never)
    return Row(
        kind,
        times,
        groups,
        len(each_us) + never,
        never,
        tuple(us / 1e3 for us in each_us),
        _spread(each_us, never),
        refused=sum(harm.refused for harm in harms),
        members_lost=sum(harm.members_lost for harm in harms),
        rebalances=sum(harm.rebalances for harm in harms),
    )


def _spread(each_us: Sequence[int], never: int) -> Spread:
    """The spread of rising durations, with some that did not end and count as longer than all of them."""
    if not never:
        return spread(each_us)
    count = len(each_us) + never

    def rank(percent: float) -> float | None:
        place = ceil(percent / 100 * count) - 1
        return round(each_us[place] / 1e3, 3) if place < len(each_us) else None

    return Spread(count, None, *(rank(percent) for percent in (50, 90, 99, 99.9, 100)))


HEADINGS: Final = (
    ("fault", ""),
    ("times", ""),
    ("groups hit", "of those that there were"),
    ("p50 s", "without service, of the groups hit"),
    ("p99 s", ""),
    ("max s", "never: it was not served again"),
    ("refused", "requests told to come back, or lost"),
    ("members lost", "memberships that the coordinator knew no more"),
    ("rebalances", "of groups whose members did not change by themselves"),
)
"""The headings of `cells`, with what they mean."""


def cells(row: Row) -> tuple[str, ...]:
    """The cells of a row in words."""
    without = row.without
    return (
        row.kind,
        f"{row.faults:,}",
        f"{row.groups_hit:,} of {row.groups:,}",
        *(_seconds(ms, row.never) for ms in (without.p50_ms, without.p99_ms, without.max_ms)),
        f"{row.refused:,}",
        f"{row.members_lost:,}",
        f"{row.rebalances:,}",
    )


def _seconds(ms: float | None, never: int) -> str:
    """Write the seconds of a row in which `never` groups were never served again."""
    if ms is None:
        return "never" if never else "-"
    return f"{ms / 1000:,.2f}"
