"""Counts what happened to groups within a period, from recorded events or from a swarm's own record.

PURE. Both count the same things as far as they know them; what one of them does not know is None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.swarm.replay.past import lives_of
from bench.swarm.replay.told import Committed, Recording, Told, overlap_ms
from storage.history.period import Period


class Counts(NamedTuple):
    """The counts of one group, or of several together."""

    groups: int = 0
    members: int = 0
    """The most members at a time; of several groups the sum of these."""
    joins: int = 0
    leaves: int = 0
    expired: int = 0
    """How many members a timeout removed."""
    fenced: int | None = 0
    """How many members were replaced by their next life, or removed by an administrator; None: not known."""
    by_cause: Mapping[str, int] | None = {}
    """How many rebalances began within the period, by cause; None: not known."""
    rebalances: int = 0
    durations_ms: tuple[int, ...] = ()
    """The durations of the rebalances that ended."""
    unstable_ms: int = 0
    """The time in a rebalance; of several groups the sum."""
    commits: float = 0.0
    offsets: float = 0.0
    """How many partitions were in the commits."""
    moved: int | None = 0
    """How many partitions changed their owner; None: not known, or not counted alike."""
    span_ms: int = 0

    @property
    def commits_s(self) -> float:
        return self.commits * 1_000 / self.span_ms if self.span_ms else 0.0

    def duration_ms(self, share: float) -> int | None:
        """A duration by nearest rank."""
        ordered = sorted(self.durations_ms)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def of_recording(recording: Recording) -> dict[str, Counts]:
    """The counts of each group of which anything is known within the period."""
    names = recording.groups.keys() | recording.commits.keys()
    found = {
        name: _of_group(recording.span, recording.groups.get(name, ()), recording.commits.get(name))
        for name in sorted(names)
    }
    return {name: each for name, each in found.items() if each.members or each.commits}


def together(all_: Iterable[Counts]) -> Counts:
    """The sum of several groups."""
    found = list(all_)
    causes: Counter[str] | None = Counter()
    for each in found:
        causes = None if causes is None or each.by_cause is None else causes + Counter(each.by_cause)
    return Counts(
        groups=sum(each.groups for each in found),
        members=sum(each.members for each in found),
        joins=sum(each.joins for each in found),
        leaves=sum(each.leaves for each in found),
        expired=sum(each.expired for each in found),
        fenced=_sum(each.fenced for each in found),
        by_cause=causes,
        rebalances=sum(each.rebalances for each in found),
        durations_ms=tuple(duration for each in found for duration in each.durations_ms),
        unstable_ms=sum(each.unstable_ms for each in found),
        commits=sum(each.commits for each in found),
        offsets=sum(each.offsets for each in found),
        moved=_sum(each.moved for each in found),
        span_ms=max((each.span_ms for each in found), default=0),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    return None if None in found else sum(each or 0 for each in found)


def most_at_a_time(stays: Iterable[tuple[float, float]]) -> int:
    """How many of these stretches of time overlap, at most."""
    changes = sorted(change for began, ended in stays for change in ((began, 1), (ended, -1)))
    there = most = 0
    for _, change in changes:
        there += change
        most = max(most, there)
    return most


def length_of_union(stretches: Iterable[tuple[int, int]]) -> int:
    """How long any of them lasts."""
    found, until = 0, -math.inf
    for began, ended in sorted(stretches):
        if ended > until:
            found += ended - int(max(began, until))
            until = ended
    return found


def _of_group(span: Period, events: Sequence[Told], committed: Committed | None) -> Counts:
    within = [event for event in events if event.at_ms >= span.since_ms]
    kinds = Counter(event.kind for event in within if event.client_id is not None)
    rebalances = _rebalances(span, events)
    committed = committed or Committed()
    return Counts(
        groups=1,
        members=most_at_a_time(_stays(span, events)),
        joins=kinds["member_joined"],
        leaves=kinds["member_left"],
        expired=kinds["member_expired"],
        fenced=kinds["member_fenced"],
        by_cause=Counter(cause for began_ms, _, cause in rebalances if began_ms >= span.since_ms),
        rebalances=sum(began_ms >= span.since_ms for began_ms, _, _ in rebalances),
        durations_ms=tuple(
            ended_ms - began_ms
            for began_ms, ended_ms, _ in rebalances
            if ended_ms is not None and began_ms >= span.since_ms
        ),
        unstable_ms=length_of_union(
            (max(began_ms, span.since_ms), span.until_ms if ended_ms is None else ended_ms)
            for began_ms, ended_ms, _ in rebalances
        ),
        commits=committed.commits,
        offsets=committed.offsets,
        moved=sum(event.moved or 0 for event in within if event.kind == "rebalance_ended"),
        span_ms=span.until_ms - span.since_ms,
    )


def _stays(span: Period, events: Sequence[Told]) -> Iterable[tuple[float, float]]:
    for life in lives_of(events):
        began_ms = life.began_ms or 0
        ended_ms = span.until_ms if life.ended_ms is None else life.ended_ms
        if overlap_ms(span, began_ms, ended_ms):
            yield began_ms, ended_ms


def _rebalances(span: Period, events: Sequence[Told]) -> list[tuple[int, int | None, str]]:
    """The rebalances of which the period has a part: when each began and ended, and why it began. One that
    begins anew before it has ended is one rebalance."""
    found: list[tuple[int, int | None, str]] = []
    began: tuple[int, str] | None = None
    for event in events:
        if event.kind == "rebalance_began" and began is None:
            began = event.at_ms, event.cause or ""
        elif event.kind == "rebalance_ended":
            at_ms, cause = began or (event.at_ms - (event.duration_ms or 0), event.cause or "")
            found.append((at_ms, event.at_ms, cause))
            began = None
    if began is not None:
        found.append((began[0], None, began[1]))
    return [each for each in found if each[1] is None or each[1] > span.since_ms]
