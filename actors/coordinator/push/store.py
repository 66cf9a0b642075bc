"""The replicated half of push groups: appliers, records, and the way back to live groups after a failover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.group import STABLE, STOPPING, Consumer, PushGroup
from actors.coordinator.push.state import StoredPushGroup, kept
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    PUSH_CONSUMER,
    PUSH_GROUP,
    PUSH_OWNERSHIP,
    PushConsumerKey,
    PushGroupKey,
    PushGroupValue,
)
from actors.ground.snapshot_build import live_items


def apply(state: ShardState, key: Key, value: Any) -> Value | None:
    """Apply a record of any of the three kinds."""
    groups = kept(state).stored
    stored = groups.get(key[1])
    if stored is None:
        if value is None:
            return None
        stored = groups[key[1]] = StoredPushGroup()
    replaced: Value | None
    if key[0] == PUSH_GROUP:
        replaced, stored.value = stored.value, value
    else:
        of_kind: dict[str, Any] = stored.consumers if key[0] == PUSH_CONSUMER else stored.ownership
        replaced = of_kind.get(key[2])
        if value is None:
            of_kind.pop(key[2], None)
        else:
            of_kind[key[2]] = value
    if stored.is_blank:
        del groups[key[1]]
    return replaced


def all_records(state: ShardState) -> Iterator[Record]:
    groups = kept(state).stored
    for group_id, stored in live_items(groups, list(groups)):
        if stored.value is not None:
            yield Record(PushGroupKey(PUSH_GROUP, group_id), stored.value)
        for consumer_id, value in live_items(stored.consumers, list(stored.consumers)):
            yield Record(PushConsumerKey(PUSH_CONSUMER, group_id, consumer_id), value)
        for consumer_id, owned in live_items(stored.ownership, list(stored.ownership)):
            yield Record(PushConsumerKey(PUSH_OWNERSHIP, group_id, consumer_id), owned)


def group_record(group: PushGroup) -> Record:
    """The record that says where the live group is."""
    value = PushGroupValue(group.epoch, int(group.is_moving), group.since_ms)
    return Record(PushGroupKey(PUSH_GROUP, group.group_id), value)


def consumer_tombstones(stored: StoredPushGroup, group_id: str, consumer_id: str) -> list[Record]:
    records = [Record(PushConsumerKey(PUSH_CONSUMER, group_id, consumer_id), None)]
    if consumer_id in stored.ownership:
        records.append(Record(PushConsumerKey(PUSH_OWNERSHIP, group_id, consumer_id), None))
    return records


def rebuild(state: ShardState, group_id: str, stored: StoredPushGroup, now_ms: int) -> PushGroup:
    """The live group as the records have it. Nobody of it can be reached: all are waited for, as the design's
    new coordinator waits for the consumers that it knows (D10)."""
    group = PushGroup(group_id, now_ms)
    if stored.value is not None:
        group.epoch, is_rebalancing, group.since_ms = stored.value
        for consumer_id, value in stored.consumers.items():
            group.consumers[consumer_id] = Consumer(consumer_id, value, now_ms)
            kept(state).note_interest(group, value)
        if group.consumers:
            group.state = STOPPING if is_rebalancing else STABLE
    return group
