"""Finds how often the members of a replay have to commit, so that a group commits as often as it did.

PURE. History sums commits up by group: the plan has their mean over the recorded time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.swarm.replay.past import EXPIRED, GroupPast
from bench.swarm.replay.subscriptions import owned_at_most
from bench.swarm.replay.timeline import Timeline, session_ms

INTERVAL_MS_MAX: Final = 3_600_000
PARTITIONS_MAX: Final = 1_000
"""How many partitions one OffsetCommit has of a member that commits all it owns."""
NEARLY_ALL: Final = 0.8
"""The share of its partitions above which a member that commits them on average is taken to commit all."""
STEPS: Final = 20


class _Owners(NamedTuple):
    """The members that own partitions and are alive, over recorded time."""

    members_ms: float
    """The number of members, times how long they owned partitions."""
    any_ms: float
    """How long there was any such member."""


def partitions_each(past: GroupPast, timeline: Timeline) -> int:
    """How many partitions one OffsetCommit has at most."""
    committed, owners = past.committed, _owners(past, timeline)
    if not committed.commits or not owners.members_ms:
        return 1
    owned = owned_at_most(past) * owners.any_ms / owners.members_ms
    mean = committed.offsets / committed.commits
    return PARTITIONS_MAX if mean >= NEARLY_ALL * owned else max(1, round(mean))


def interval_ms(past: GroupPast, timeline: Timeline) -> int:
    """The time between two commits of a member; 0: it never commits. Commits of members that give partitions
    up come on top in a swarm, and are in the recorded sum."""
    if not past.committed.commits:
        return 0
    in_turn = past.committed.commits - past.handovers.commits
    members_ms = _owners(past, timeline).members_ms
    if in_turn <= 0 or members_ms / in_turn >= INTERVAL_MS_MAX:
        return INTERVAL_MS_MAX
    found = members_ms / in_turn
    for _ in range(STEPS):
        waited_ms = sum(count * _lost_ms(wait_ms, found) for wait_ms, count in past.handovers.waits)
        found = max(1.0, (members_ms - waited_ms) / in_turn)
    return max(1, round(found / timeline.faster))


def _lost_ms(wait_ms: float, interval: float) -> float:
    """The time that commits lose by a wait: one that is due meanwhile is made right afterwards, the next an
    interval later."""
    return wait_ms**2 / (2 * interval) if wait_ms < interval else wait_ms - interval / 2


def _owners(past: GroupPast, timeline: Timeline) -> _Owners:
    since_ms, until_ms = timeline.span
    changes: list[tuple[float, int]] = []
    for life in past.lives:
        ended_ms = until_ms if life.ended_ms is None else life.ended_ms
        if life.ending == EXPIRED:
            ended_ms -= session_ms(past, life)
        began_ms = max(life.began_ms or 0, since_ms)
        if ended_ms > began_ms:
            changes += [(began_ms, 1), (ended_ms, -1)]
    most = owned_at_most(past)
    members_ms, any_ms, there, before_ms = 0.0, 0.0, 0, float(since_ms)
    for at_ms, change in sorted(changes):
        members_ms += min(there, most) * (at_ms - before_ms)
        any_ms += (there > 0) * (at_ms - before_ms)
        there, before_ms = there + change, at_ms
    return _Owners(members_ms, any_ms)
