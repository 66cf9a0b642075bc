"""What concerns all push groups of a shard: an election, and news of topics."""

from __future__ import annotations

from collections.abc import Iterator

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.slices import SLICE_MAX, begun, group_members
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push import history, sending, store
from actors.coordinator.push.group import REBALANCE_TIMER, PushGroup
from actors.coordinator.push.rebalance import set_due
from actors.coordinator.push.state import kept
from actors.ground.contract import Result
from actors.ground.image import MetadataImage

TOPICS_CHANGED = ("topics or partitions changed", "D7", None)
TAKEN_OVER = ("under way when this leader took over", "D10", None)


def on_elected(state: ShardState, now_ms: int) -> Result:
    """D10: all groups are there, and wait for their consumers to register again."""
    return begun(_rebuilt(state, now_ms), group_members(state))


def _rebuilt(state: ShardState, now_ms: int) -> Iterator[Result]:
    outcome, done = Outcome(state, now_ms), 0
    groups = kept(state)
    for group_id, stored in groups.stored.items():
        group = groups.groups[group_id] = store.rebuild(state, group_id, stored, now_ms)
        for consumer in group.consumers.values():
            sending.lose(state, group, consumer, now_ms)
        if group.consumers:
            _go_on(outcome, group)
        done += 1 + group.size
        if done > SLICE_MAX:
            yield outcome.result()
            outcome, done = Outcome(state, now_ms), 0
    yield outcome.result()


def _go_on(outcome: Outcome, group: PushGroup) -> None:
    """Begin a rebalance anew that was under way; else look whether one is due."""
    if group.is_moving:
        group.cause = TAKEN_OVER
        history.tell_began(outcome, group, "it is done again")
        group.cause = None
        outcome.state.timers.schedule((REBALANCE_TIMER, group.group_id), outcome.now_ms)
    else:
        set_due(outcome.state, group, outcome.now_ms, TAKEN_OVER)


def on_metadata(state: ShardState, before: MetadataImage, now_ms: int) -> None:
    """handleTopicChange and handlePartitionChange (D7): the groups that may be concerned look whether they
    are."""
    groups = kept(state)
    if state.image.topics == before.topics:
        return
    old, new = before.topics, state.image.topics
    concerned: dict[str, None] = dict(groups.wildcard_groups)
    for topic in old.keys() | new.keys():
        if topic in groups.groups_of_topic and old.get(topic) != new.get(topic):
            concerned.update(groups.groups_of_topic[topic])
    for group_id in concerned:
        group = groups.groups[group_id]
        if group.consumers:
            set_due(state, group, now_ms, TOPICS_CHANGED)
