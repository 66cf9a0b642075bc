"""Consumer groups that come back from a backup: Empty, with the epochs that they had."""

from __future__ import annotations

from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground.kind import Backup
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value
from actors.ground.records import CONSUMER_GROUP_METADATA, RECORD_TYPES, TARGET_ASSIGNMENT_METADATA


def _emptied(record: Record, now_ms: int) -> Record:
    """Keep the record as it is: it says nothing of members."""
    return record


def _present(state: ShardState, key: Key) -> Value | None:
    group = consumer_groups(state).get(key[1])
    if group is None:
        return None
    return group.metadata if key[0] == CONSUMER_GROUP_METADATA else group.target_metadata


def _is_in_use(state: ShardState, group_id: str) -> bool:
    return bool(consumer_groups(state)[group_id].members)


def _revive(state: ShardState, record: Record, now_ms: int) -> None:
    """Do nothing: an Empty consumer group has no volatile half."""


BACKUP = Backup(
    record_types={kind: RECORD_TYPES[kind] for kind in (CONSUMER_GROUP_METADATA, TARGET_ASSIGNMENT_METADATA)},
    emptied=_emptied,
    present=_present,
    is_in_use=_is_in_use,
    revive=_revive,
)
