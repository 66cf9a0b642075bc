"""Records of a backup come back through the log, as groups whose members are gone.

What outlives members is a group's offsets, its kind, its generation or epochs. Members are not restored: they
were of another tier's life, and a client that still runs joins anew. So every restored group is Empty, and
no generation or epoch that the backup knew is given out again.
"""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import store as classic_store
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.state import ShardState, StoredClassicGroup
from actors.ground.contract import Key, Record, Reply, Request, Result, Value
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    GROUP_METADATA,
    OFFSET_COMMIT,
    RECORD_TYPES,
    TARGET_ASSIGNMENT_METADATA,
    GroupMetadataValue,
)
from actors.protocol.errors import GroupError

RESTORE = -1
"""In place of an API key: no client can ask for it, only the tier's own command."""
OF_MEMBERS = frozenset(RECORD_TYPES) - {
    OFFSET_COMMIT,
    GROUP_METADATA,
    CONSUMER_GROUP_METADATA,
    TARGET_ASSIGNMENT_METADATA,
}
"""Kinds of records that go with the members, were of a moment, or are in logs alone."""


class RestoreRequest(NamedTuple):
    records: tuple[tuple[Key, Value], ...]
    """Given by `emptied`."""


class RestoreResponse(NamedTuple):
    error_code: int = 0
    message: str | None = None


def emptied(key: Key, value: Value, now_ms: int) -> Record | None:
    """A record, perhaps of plain tuples, as it is once its group's members are gone; None if it was theirs.

    A classic group became Empty when it was restored, not when the backup was made: offsets of empty groups
    are kept for a time that begins there (O14).
    """
    if key[0] in OF_MEMBERS:
        return None
    types = RECORD_TYPES.get(key[0])
    if types is None:
        return None  # a kind of a newer release, as `apply` skips it (R6)
    record = Record(types[0](*key), types[1](*value))
    if isinstance(record.value, GroupMetadataValue):
        empty = record.value._replace(protocol_name=None, leader=None, current_state_timestamp_ms=now_ms)
        return Record(record.key, empty)
    return record


def restore(state: ShardState, request: Request, now_ms: int) -> Result:
    """Write records of groups that are not there. What an earlier request wrote already is not written again,
    so that one whose answer was lost can be repeated.

    Raises NON_EMPTY_GROUP if a client uses one of the groups, or it holds something else.
    """
    body: RestoreRequest = request.body
    records = []
    for key, value in body.records:
        types = RECORD_TYPES[key[0]]
        record = Record(types[0](*key), types[1](*value))
        present = _present(state, record.key)
        if present is None:
            records.append(record)
        if _is_in_use(state, record.key) or present not in (None, record.value):
            raise GroupError(
                ErrorCode.non_empty_group, f"group {key[1]} is used by a client of this tier already"
            )
    for record in records:
        if isinstance(record.value, GroupMetadataValue):
            # A leader makes live groups when it is elected; this one leads already.
            stored = StoredClassicGroup()
            stored.metadata = record.value
            group_id = record.key[1]
            state.classic[group_id] = classic_store.rebuild(group_id, stored, now_ms)
    return Result(records, (Reply(request.token, RestoreResponse()),))


def _present(state: ShardState, key: Key) -> Value | None:
    """The value that a record would replace."""
    kind, group_id = key[0], key[1]
    if kind == OFFSET_COMMIT:
        return state.offsets.get(group_id, {}).get((key[2], key[3]))
    if kind == GROUP_METADATA:
        stored = state.stored_classic.get(group_id)
        return None if stored is None else stored.metadata
    group = state.consumer.get(group_id)
    if group is None:
        return None
    return group.metadata if kind == CONSUMER_GROUP_METADATA else group.target_metadata


def _is_in_use(state: ShardState, key: Key) -> bool:
    """Somebody has joined the group, or is about to; or it is there as another kind."""
    kind, group_id = key[0], key[1]
    live, group = state.classic.get(group_id), state.consumer.get(group_id)
    if live is not None and (live.members or live.pending_joins or group_id not in state.stored_classic):
        return True
    if (group is not None and group.members) or group_id in state.dying:
        return True
    return kind != OFFSET_COMMIT and (group if kind == GROUP_METADATA else live) is not None


AREA = Area(handlers={RESTORE: restore})
