"""The history's answers held against the swarm's own record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tests.history.real_run.answers import Answers, Gap, Place, Span
from tests.history.real_run.stage import Played

LATE_MS: Final = 500
"""How far the two sides may differ in time, on a machine that has nothing else to do."""


class Ownerless(NamedTuple):
    """How long a group's partitions had no owner, as each of the two sides tells it."""

    group_id: str
    told_ms: int
    """How long partitions had no owner by the server's history, summed over partitions."""
    seen_ms: int
    gaps: int


def late_ms(played: Played) -> int:
    """Return how far the two sides may differ in time, with the delays of the machine in this run."""
    return LATE_MS + played.record.slowest_ms(played.killed_ms)


def check_triggers(told: Answers, played: Played, number: int = 3) -> dict[str, str]:
    """Which member caused the rebalance of that number: of every group whose leader was not lost before it.
    Returns the member and the cause, by group."""
    found = {}
    for group_id in played.record.group_ids:
        first, trigger = told.triggers[group_id][0], told.triggers[group_id][number - 1]
        unknown = _unknown(told, group_id)
        if any(first.at_ms < span.until_ms and span.from_ms < trigger.at_ms for span in unknown):
            continue
        possible = played.record.triggers(group_id, number)
        assert trigger.member_id in possible, (group_id, trigger, possible)
        found[group_id] = f"{trigger.member_id}: {trigger.cause}"
    assert len(found) >= len(played.record.group_ids) / 2, "too many leaders were lost too early"
    return found


def check_gaps(told: Answers, played: Played, heartbeat_ms: int) -> list[Ownerless]:
    """How long partitions were without an owner. A member learns of a rebalance with its next heartbeat, so
    that the two sides may differ by that: the tier counts from the rebalance's beginning."""
    found = []
    late = late_ms(played)
    for group_id in played.record.group_ids:
        unknown = [Span(each.from_ms - late, each.until_ms + late) for each in _unknown(told, group_id)]
        ours = _known(told.gaps[group_id], unknown, played.record.ended_ms - late)
        theirs = _known(played.record.gaps(group_id), unknown, played.record.ended_ms - late)
        # After a leader was lost, history knows of a partition's owner only once it has moved.
        first_ms = min((span.from_ms for span in unknown), default=played.record.ended_ms)
        slack_ms = heartbeat_ms + late
        _check_met(
            (gap for gap in theirs if gap.until_ms < first_ms), ours, slack_ms, late, f"{group_id}, seen"
        )
        _check_met(ours, theirs, slack_ms, late, f"{group_id}, told")
        told_ms, seen_ms = (_sum(gap for gap in gaps if gap.until_ms < first_ms) for gaps in (ours, theirs))
        assert abs(told_ms - seen_ms) <= slack_ms * len(ours), (group_id, told_ms, seen_ms)
        found.append(Ownerless(group_id, told_ms, seen_ms, len(ours)))
    assert any(each.gaps for each in found)
    return found


def check_commits(told: Answers, played: Played) -> None:
    """The reset by hand is found, and every other offset that went back, and nothing more."""
    assert told.back == {played.rewound, *played.record.went_back()}


def check_kill(told: Answers, played: Played) -> None:
    """The leader's death shows as a time that nobody knows of."""
    assert any(
        span.from_ms - late_ms(played) <= played.killed_ms <= span.until_ms
        for span in told.unknown[played.killed_partition]
    )


def _check_met(some: Iterable[Gap], others: Sequence[Gap], slack_ms: int, short_ms: int, what: str) -> None:
    """Check that each gap that is long enough to be seen by the other side has its counterpart there."""
    by_place: dict[Place, list[Gap]] = defaultdict(list)
    for gap in others:
        by_place[gap.topic, gap.partition].append(gap)
    for gap in some:
        assert gap.until_ms - gap.from_ms <= short_ms or any(
            abs(other.from_ms - gap.from_ms) <= slack_ms and abs(other.until_ms - gap.until_ms) <= slack_ms
            for other in by_place[gap.topic, gap.partition]
        ), (what, gap, by_place[gap.topic, gap.partition])


def _unknown(told: Answers, group_id: str) -> list[Span]:
    return told.unknown[told.partition_of[group_id]]


def _known(gaps: Iterable[Gap], unknown: Sequence[Span], ended_ms: int) -> list[Gap]:
    """Return the gaps of which both sides have seen beginning and end."""
    return [
        gap
        for gap in gaps
        if gap.until_ms <= ended_ms
        and not any(gap.from_ms <= span.until_ms and span.from_ms <= gap.until_ms for span in unknown)
    ]


def _sum(gaps: Iterable[Gap]) -> int:
    return sum(gap.until_ms - gap.from_ms for gap in gaps)
