"""Push groups that come back from a backup: Empty, with the epoch that they had."""

from __future__ import annotations

from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.state import StoredPushGroup, kept, push_groups, stored_of
from actors.coordinator.push.store import rebuild
from actors.ground.contract import Key, Record, Value
from actors.ground.records import PushGroupValue


def emptied(record: Record, now_ms: int) -> Record:
    """The group became Empty when it was restored: its offsets are kept for a time that begins there
    (O14)."""
    assert isinstance(record.value, PushGroupValue)
    return Record(record.key, record.value._replace(is_rebalancing=0, since_ms=now_ms))


def present(state: ShardState, key: Key) -> Value | None:
    return stored_of(state, key[1]).value


def is_in_use(state: ShardState, group_id: str) -> bool:
    return push_groups(state)[group_id].size > 0


def revive(state: ShardState, record: Record, now_ms: int) -> None:
    """Make the live group, as a leader does when it is elected."""
    assert isinstance(record.value, PushGroupValue)
    stored = StoredPushGroup()
    stored.value = record.value
    group_id = record.key[1]
    kept(state).groups[group_id] = rebuild(state, group_id, stored, now_ms)
