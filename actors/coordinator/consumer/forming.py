"""A consumer group that forms: those who join while it has no members yet are taken together.

The first member of a group would be given every partition at once, and who comes right behind it would wait
for the next target (M8) and then for what the first one has to give up again: two rounds of heartbeats for a
fleet that starts as one. So the answers of the first joins wait a moment for more joins (`batching.pause_ms`)
and then for one target that has them all. Nothing else waits: members and epochs are recorded as they come.

Never longer than three assignment intervals: whoever comes behind the first target waits for the next one
(M8), and then for a heartbeat or two of those who have to give up what they were given. An interval of 0, or
no batching, is as Kafka. Volatile: a leader that falls sends those back who wait.
"""

from __future__ import annotations

from actors.coordinator.classic.state import classic_groups
from actors.coordinator.consumer.decision import Decision
from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.consumer.model.volatile import Forming
from actors.coordinator.ground.batching import ALONE_MS, pause_ms
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request

FORMING_TIMER = "consumer-forming"
INTERVALS_MAX = 3
ANSWERS_PER_TIMER = 100
"""Joins that are decided in one call, less than ten milliseconds of work."""


def may_wait(decision: Decision) -> bool:
    """Whether the join may wait for others: its group forms, and nobody is waited for too long."""
    group_id = decision.group.group_id
    forming = kept(decision.state).forming.get(group_id)
    if (
        decision.body.member_epoch != 0
        or decision.classic is not None
        or group_id in classic_groups(decision.state)
    ):
        return False
    if forming is not None:
        return not forming.is_over
    return decision.group.size == 0 and _longest_ms(decision.state, group_id) > 0


def wait(decision: Decision) -> None:
    """Keep the join until the group has formed."""
    state, group_id, now_ms = decision.state, decision.group.group_id, decision.now_ms
    forming = kept(state).forming.get(group_id)
    if forming is None:
        forming = kept(state).forming[group_id] = Forming(now_ms)
    request = decision.request
    forming.joins.append(request._replace(body=request.body._replace(member_id=decision.member_id)))
    pause = max(pause_ms(len(forming.joins), now_ms - forming.began_ms), ALONE_MS)
    over_ms = min(now_ms + pause, forming.began_ms + _longest_ms(state, group_id))
    state.timers.schedule((FORMING_TIMER, group_id), over_ms)


def next_joins(state: ShardState, group_id: str, now_ms: int) -> list[Request]:
    """The joins to be decided now; the timer comes again while there are more. The very first is alone: it
    brings about the target, which the others find."""
    forming = kept(state).forming[group_id]
    count = ANSWERS_PER_TIMER if forming.is_over else 1
    forming.is_over = True
    joins, forming.joins = forming.joins[:count], forming.joins[count:]
    if forming.joins:
        state.timers.schedule_late((FORMING_TIMER, group_id), now_ms)
    else:
        del kept(state).forming[group_id]
    return joins


def _longest_ms(state: ShardState, group_id: str) -> int:
    interval_ms = group_settings.of(state, group_id).assignment_interval_ms
    return min(INTERVALS_MAX * interval_ms, state.settings.group_rebalance_batch_max_ms)
