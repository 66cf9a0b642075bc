"""What a push group is doing, in a sentence, and whom it waits for."""

from __future__ import annotations

from actors.coordinator.ground.explanation import Explanation, Waited
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.group import (
    EMPTY,
    FAIL_TIMER,
    REBALANCE_TIMER,
    STABLE,
    STOPPING,
    WATCH_TIMER,
    Consumer,
    PushGroup,
)
from actors.coordinator.push.state import PUSH, push_groups
from actors.protocol.api_keys import START_FETCHER, STOP_FETCHER


def explain(state: ShardState, group_id: str, now_ms: int) -> Explanation:
    """Explain a live push group."""
    group = push_groups(state)[group_id]
    waited = tuple(_waited(state, group, now_ms))
    return Explanation(
        group_id,
        PUSH,
        group.state_name,
        group.epoch,
        None,
        group.size,
        _says(state, group, now_ms),
        since_ms=group.since_ms,
        waited_for=waited,
    )


def _says(state: ShardState, group: PushGroup, now_ms: int) -> str:
    if group.state is EMPTY:
        return "no consumer is registered"
    if group.state is STABLE:
        return (
            "every partition is read by the consumer that owns it"
            if all(each.is_started for each in group.consumers.values())
            else "some consumers have yet to start their fetchers"
        )
    if group.awaited is None:
        due_ms = state.timers.deadline_ms((REBALANCE_TIMER, group.group_id)) or now_ms
        left_s = max(due_ms - now_ms, 0) / 1000
        return (
            f"{group.attempts or 'all'} attempts to rebalance have failed, the next one is in {left_s:.1f} s"
        )
    if group.state is STOPPING:
        return "all consumers stop their fetchers, so that partitions may have new owners"
    return "the ownership is decided, and all consumers start their fetchers"


def _waited(state: ShardState, group: PushGroup, now_ms: int) -> list[Waited]:
    if group.is_moving:
        ids = list(group.awaited or ())
    else:
        ids = [each.consumer_id for each in group.consumers.values() if not each.is_started]
    stopping = group.state is STOPPING
    return [_one(state, group, group.consumers[each], stopping) for each in ids if each in group.consumers]


def _one(state: ShardState, group: PushGroup, consumer: Consumer, stopping: bool) -> Waited:
    key = group.group_id, consumer.consumer_id
    if consumer.channel is None:
        what, deadline_ms = "registered again", state.timers.deadline_ms((FAIL_TIMER, *key))
    else:
        api_key = STOP_FETCHER if stopping else START_FETCHER
        what = "stopped its fetchers" if stopping else "started its fetchers"
        deadline_ms = state.timers.deadline_ms((WATCH_TIMER, *key, api_key))
    value = consumer.value
    return Waited(consumer.consumer_id, None, value.client_id, value.client_host, what, deadline_ms)
