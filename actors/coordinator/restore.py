"""Records of a backup come back through the log, as groups whose members are gone.

What outlives members is a group's offsets, its kind, its generation or epochs. Members are not restored: they
were of another tier's life, and a client that still runs joins anew. So every restored group is Empty, and
no generation or epoch that the backup knew is given out again. Transactional ids come back at rest
(`transactions.backup`).
"""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.kind import Backup, kind_of, kinds_of
from actors.coordinator.ground.state import ShardState
from actors.coordinator.kinds import KINDS
from actors.coordinator.transactions.backup import at_rest
from actors.coordinator.transactions.coordinator import schedule
from actors.ground.contract import Key, Record, Reply, Request, Result, Value
from actors.ground.records import (
    OFFSET_COMMIT,
    PRODUCER_ID_BLOCK,
    RECORD_TYPES,
    TRANSACTION,
    OffsetCommitKey,
    OffsetCommitValue,
    ProducerIdBlockKey,
    ProducerIdBlockValue,
    TransactionKey,
    TransactionValue,
)
from actors.protocol.errors import GroupError

RESTORE = -1
"""The number that stands for an API key: no client can ask for it, only the tier's own command."""
_BACKUPS: dict[int, Backup] = {record: kind.backup for kind in KINDS for record in kind.backup.record_types}
"""How each kind of record comes back."""
OF_MEMBERS = frozenset(RECORD_TYPES) - {OFFSET_COMMIT, TRANSACTION, *_BACKUPS}
"""Kinds of records that go with the members, were of a moment, or are in logs alone."""


class RestoreRequest(NamedTuple):
    records: tuple[tuple[Key, Value], ...]
    """The records to restore, as `emptied` returns them."""


class RestoreResponse(NamedTuple):
    error_code: int = 0
    message: str | None = None


def emptied(key: Key, value: Value, now_ms: int) -> Record | None:
    """A record, perhaps of plain tuples, without its group's members; None if it was theirs."""
    if key[0] == OFFSET_COMMIT:
        return Record(OffsetCommitKey(*key), OffsetCommitValue(*value))
    if key[0] == TRANSACTION:
        return Record(TransactionKey(*key), at_rest(TransactionValue(*value), now_ms))
    backup = _BACKUPS.get(key[0])
    if backup is None:
        return None  # of members, or a kind of a newer release, as `apply` skips it (R6)
    return backup.emptied(_typed(backup, key, value), now_ms)


def _typed(backup: Backup, key: Key, value: Value) -> Record:
    key_class, value_class = backup.record_types[key[0]]
    return Record(key_class(*key), value_class(*value))


def restore(state: ShardState, request: Request, now_ms: int) -> Result:
    """Write records of groups that are not there. What an earlier request wrote already is not written again,
    so that one whose answer was lost can be repeated.

    Raises NON_EMPTY_GROUP if a client uses one of the groups, or it holds something else.
    """
    body: RestoreRequest = request.body
    records = []
    revived: list[tuple[Backup, Record]] = []
    for key, value in body.records:
        if key[0] in (TRANSACTION, PRODUCER_ID_BLOCK):
            records += _restored_transaction(state, key, value)
            continue
        backup = _backup(state, key[0])
        if backup is None:
            record = Record(OffsetCommitKey(*key), OffsetCommitValue(*value))
            present: Value | None = state.offsets.get(key[1], NO_OFFSETS).get((key[2], key[3]))
        else:
            record = _typed(backup, key, value)
            present = backup.present(state, record.key)
        if present is None:
            records.append(record)
            if backup is not None:
                revived.append((backup, record))
        if _is_in_use(state, record.key) or present not in (None, record.value):
            raise GroupError(
                ErrorCode.non_empty_group, f"group {key[1]} is used by a client of this tier already"
            )
    for backup, record in revived:
        backup.revive(state, record, now_ms)
    return Result(records, (Reply(request.token, RestoreResponse()),))


def _restored_transaction(state: ShardState, key: Key, value: Value) -> list[Record]:
    """Return the record of a transactional id, or of how many producer ids were given out. There is none
    if it is written already. Raises NON_EMPTY_GROUP if a client uses the transactional id."""
    if key[0] == PRODUCER_ID_BLOCK:
        block = ProducerIdBlockValue(*value)
        given_out = -1 if state.producer_ids is None else state.producer_ids.given_out
        return [Record(ProducerIdBlockKey(*key), block)] if block.given_out > given_out else []
    restored = Record(TransactionKey(*key), TransactionValue(*value))
    present = state.transactions.get(key[1])
    if present not in (None, restored.value):
        message = f"transactional id {key[1]} is used by a client of this tier already"
        raise GroupError(ErrorCode.non_empty_group, message)
    schedule(state, key[1], TransactionValue(*value))
    return [restored] if present is None else []


def _backup(state: ShardState, record_kind: int) -> Backup | None:
    """How the kind of group that keeps such records comes back; None: they are offsets."""
    for kind in kinds_of(state):
        if record_kind in kind.backup.record_types:
            return kind.backup
    return None


def _is_in_use(state: ShardState, key: Key) -> bool:
    """Somebody has joined the group, or is about to; or it is there as another kind."""
    record_kind, group_id = key[0], key[1]
    if group_id in state.dying:
        return True
    kind = kind_of(state, group_id)
    if kind is None:
        return False
    is_other = record_kind != OFFSET_COMMIT and record_kind not in kind.backup.record_types
    return is_other or kind.backup.is_in_use(state, group_id)


def _refused(request: Request, error: ErrorCode, message: str | None) -> RestoreResponse:
    return RestoreResponse(error, message)


AREA = Area(handlers={RESTORE: restore}, refusals={RESTORE: _refused})
