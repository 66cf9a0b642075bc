"""Classic groups that come back from a backup: Empty, with the generation that they had."""

from __future__ import annotations

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.state import StoredClassicGroup, classic_groups, stored_groups
from actors.coordinator.ground.kind import Backup
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value
from actors.ground.records import GROUP_METADATA, RECORD_TYPES, GroupMetadataValue


def _emptied(record: Record, now_ms: int) -> Record:
    """The group became Empty when it was restored, not when the backup was made: offsets of empty groups are
    kept for a time that begins there (O14)."""
    assert isinstance(record.value, GroupMetadataValue)
    empty = record.value._replace(protocol_name=None, leader=None, current_state_timestamp_ms=now_ms)
    return Record(record.key, empty)


def _present(state: ShardState, key: Key) -> Value | None:
    stored = stored_groups(state).get(key[1])
    return None if stored is None else stored.metadata


def _is_in_use(state: ShardState, group_id: str) -> bool:
    live = classic_groups(state)[group_id]
    return bool(live.members or live.pending_joins or group_id not in stored_groups(state))


def _revive(state: ShardState, record: Record, now_ms: int) -> None:
    """Make the live group: a leader does so when it is elected, and this one leads already."""
    assert isinstance(record.value, GroupMetadataValue)
    stored = StoredClassicGroup()
    stored.metadata = record.value
    group_id = record.key[1]
    classic_groups(state)[group_id] = classic_store.rebuild(group_id, stored, now_ms)


BACKUP = Backup(
    record_types={GROUP_METADATA: RECORD_TYPES[GROUP_METADATA]},
    emptied=_emptied,
    present=_present,
    is_in_use=_is_in_use,
    revive=_revive,
)
