"""How often members of a replay commit, so that a group commits as often as it did. PURE.

History sums commits up by group: the plan has their mean over the recorded time.
"""

from __future__ import annotations

from typing import Final

from bench.swarm.replay.past import EXPIRED, GroupPast
from bench.swarm.replay.subscriptions import owned_at_most
from bench.swarm.replay.timeline import Timeline, session_ms
from bench.swarm.replay.told import Committed

INTERVAL_MS_MAX: Final = 3_600_000


def partitions_each(committed: Committed) -> int:
    """Of one OffsetCommit, in the mean."""
    return max(1, round(committed.offsets / committed.commits)) if committed.commits else 1


def interval_ms(past: GroupPast, timeline: Timeline) -> int:
    """Between two commits of a member; 0: it never commits. What members commit before they give partitions
    up comes on top in a swarm, and is in the recorded sum."""
    if not past.committed.commits:
        return 0
    in_turn = past.committed.commits - past.rebalance_commits
    owners_ms = _owners_ms(past, timeline)
    if in_turn <= 0 or owners_ms / in_turn >= INTERVAL_MS_MAX:
        return INTERVAL_MS_MAX
    return max(1, round(owners_ms / in_turn / timeline.faster))


def _owners_ms(past: GroupPast, timeline: Timeline) -> float:
    """Members that own something and are alive, times how long, in recorded time."""
    since_ms, until_ms = timeline.span
    changes: list[tuple[float, int]] = []
    for life in past.lives:
        ended_ms = until_ms if life.ended_ms is None else life.ended_ms
        if life.ending == EXPIRED:
            ended_ms -= session_ms(past)
        began_ms = max(life.began_ms or 0, since_ms)
        if ended_ms > began_ms:
            changes += [(began_ms, 1), (ended_ms, -1)]
    most = owned_at_most(past)
    found, there, before_ms = 0.0, 0, float(since_ms)
    for at_ms, change in sorted(changes):
        found += min(there, most) * (at_ms - before_ms)
        there, before_ms = there + change, at_ms
    return found
