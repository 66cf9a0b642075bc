"""The parts of recorded history that a replay needs: events of groups, and the sums of their commits.

PURE: `reading` fills these from segments, tests by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from storage.history.period import Period
from storage.history.schema import LIVES

REBALANCES: Final = ("rebalance_began", "rebalance_ended")
KINDS: Final = (*LIVES, *REBALANCES, "assigned", "group_deleted")
"""The kinds of events that are read one by one."""


def overlap_ms(span: Period, began_ms: int, ended_ms: int) -> int:
    """How much of a stretch lies within a period."""
    return max(0, min(ended_ms, span.until_ms) - max(began_ms, span.since_ms))


class Told(NamedTuple):
    """One event, with the columns of `storage.history.schema` that a replay looks at."""

    at_ms: int
    kind: str
    group_id: str
    offsets_partition: int = 0
    term: int = 1
    sequence: int = 0
    group_type: str | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    client_software: str | None = None
    session_timeout_ms: int | None = None
    cause: str | None = None
    duration_ms: int | None = None
    members: int | None = None
    partitions: int | None = None
    moved: int | None = None
    assignor: str | None = None
    state: str | None = None
    widths: tuple[tuple[str, int], ...] = ()
    """Each topic of `moves` with its highest partition that moved, plus one."""
    givers: tuple[str, ...] = ()
    """The members that gave partitions to others in `moves`."""
    takers: tuple[str, ...] = ()
    """The members that were given partitions in `moves`."""


class Committed(NamedTuple):
    """What a group committed within the span."""

    commits: float = 0.0
    """How many OffsetCommit requests there were. A row that the span cuts counts in part."""
    offsets: float = 0.0
    """How many partitions were in them."""


class Recording(NamedTuple):
    """Everything that a replay needs of a history."""

    span: Period
    """The period that is replayed."""
    first_ms: int
    """The time of the first event that is kept: nothing is known of what was before."""
    groups: Mapping[str, Sequence[Told]]
    """The events of each group until the span's end, also from before it, in the order they were told."""
    commits: Mapping[str, Committed]
    sampled: Mapping[str, Mapping[str, int]]
    """How many partitions each topic of a group has at least, as lag samples tell."""
    summed_ms: Mapping[str, int] = MappingProxyType({})
    """When the commits of each group were summed up for the last time that is known."""
    skipped: tuple[str, ...] = ()
    """The files that were left out, and why."""


def in_order(events: Sequence[Told]) -> list[Told]:
    """The events in the order in which leaders told them, each once: a segment and what it was compacted from
    may both be there."""
    by_name = {(each.offsets_partition, each.term, each.sequence): each for each in events}
    return [by_name[name] for name in sorted(by_name, key=lambda name: name[1:])]
