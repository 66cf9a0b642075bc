"""Offsets of open transactions: written by TxnOffsetCommit, ended by the transaction's marker (O7).

A pending offset is one PENDING_TXN_OFFSET record. Nobody sees it but a stable OffsetFetch, which is told
to wait (O10); the COMMIT marker makes it the committed offset unless a newer one is there, the ABORT marker
drops it. Kafka's rules are OffsetMetadataManager's (commitTransactionalOffset, replayEndTransactionMarker).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    PENDING_TXN_OFFSET,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingTxnOffsetKey,
    PendingTxnOffsetValue,
)
from actors.ground.snapshot_build import live_items

_NONE: Mapping[tuple[str, int], Mapping[int, PendingTxnOffsetValue]] = {}


def has_pending(state: ShardState, group_id: str, topic: str, partition: int) -> bool:
    """Whether an open transaction has an offset for this partition (UNSTABLE_OFFSET_COMMIT, O10)."""
    group = state.pending_offsets.get(group_id)
    return group is not None and (topic, partition) in group


def has_pending_of_group(state: ShardState, group_id: str) -> bool:
    """Whether an open transaction has any offset of the group (O8)."""
    return group_id in state.pending_offsets


def pending_of(state: ShardState, group_id: str) -> Collection[tuple[str, int]]:
    """(topic, partition) of the group's pending offsets."""
    return state.pending_offsets.get(group_id, _NONE).keys()


def drop_pending(state: ShardState, group_id: str, topic: str, partition: int) -> list[Record]:
    """Tombstones for a partition's pending offsets: they go with the tombstone of its offset (O8)."""
    producers = state.pending_offsets.get(group_id, _NONE).get((topic, partition), {})
    return [_tombstone(group_id, topic, partition, producer_id) for producer_id in producers]


def drop_pending_of_group(state: ShardState, group_id: str) -> list[Record]:
    """Tombstones for all pending offsets of a group that is being deleted (O13)."""
    return [
        record
        for topic, partition in pending_of(state, group_id)
        for record in drop_pending(state, group_id, topic, partition)
    ]


def pend(
    state: ShardState, key: PendingTxnOffsetKey, producer_epoch: int, committed: OffsetCommitValue
) -> Record:
    """The record that keeps `committed` until the transaction of the key's producer ends."""
    offsets = state.pending_offsets.get(key.group_id, _NONE).get((key.topic, key.partition), {})
    current = state.offsets.get(key.group_id, NO_OFFSETS).get((key.topic, key.partition))
    value = PendingTxnOffsetValue(
        producer_epoch,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        committed.commit_timestamp_ms,
        committed.topic_id,
        1 + max((each.sequence for each in offsets.values()), default=0),
        _version(current),
    )
    return Record(key, value)


def has_open_transaction(state: ShardState, producer_id: int, producer_epoch: int) -> bool:
    """Whether this partition has offsets of the producer's transaction: it need not be verified again."""
    for group_id, topic, partition in state.open_producers.get(producer_id, ()):
        pending = state.pending_offsets[group_id][topic, partition][producer_id]
        return pending.producer_epoch == producer_epoch
    return False


def open_epoch(state: ShardState, producer_id: int) -> int | None:
    """The epoch in which the producer wrote its pending offsets; None: it has none."""
    for group_id, topic, partition in state.open_producers.get(producer_id, ()):
        return state.pending_offsets[group_id][topic, partition][producer_id].producer_epoch
    return None


def end_transaction(state: ShardState, producer_id: int, *, committed: bool) -> list[Record]:
    """The records of a transaction's end: every pending offset of the producer goes; if the transaction was
    committed it becomes the committed offset."""
    records: list[Record] = []
    for group_id, topic, partition in state.open_producers.get(producer_id, ()):
        if committed:
            records += _materialized(state, group_id, (topic, partition), producer_id)
        records.append(_tombstone(group_id, topic, partition, producer_id))
    return records


def _materialized(
    state: ShardState, group_id: str, position: tuple[str, int], producer_id: int
) -> list[Record]:
    pendings = state.pending_offsets[group_id][position]
    pending = pendings[producer_id]
    if _version(state.offsets.get(group_id, NO_OFFSETS).get(position)) != pending.replaces:
        return []
    value = OffsetCommitValue(
        pending.offset,
        pending.leader_epoch,
        pending.metadata,
        pending.commit_timestamp_ms,
        NO_EXPIRY,
        pending.topic_id,
    )
    records = [Record(OffsetCommitKey(OFFSET_COMMIT, group_id, *position), value)]
    # What was pended after this one is newer than what this one has become.
    records += [
        Record(
            PendingTxnOffsetKey(PENDING_TXN_OFFSET, group_id, *position, other_id),
            other._replace(replaces=_version(value)),
        )
        for other_id, other in pendings.items()
        if other.sequence > pending.sequence
    ]
    return records


def _version(committed: OffsetCommitValue | None) -> tuple[int, int] | None:
    return None if committed is None else (committed.offset, committed.commit_timestamp_ms)


def _tombstone(group_id: str, topic: str, partition: int, producer_id: int) -> Record:
    return Record(PendingTxnOffsetKey(PENDING_TXN_OFFSET, group_id, topic, partition, producer_id), None)


# State.


def apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    _, group_id, topic, partition, producer_id = key
    position = (topic, partition)
    if value is None:
        return _removed(state, group_id, position, producer_id)
    assert isinstance(value, PendingTxnOffsetValue)
    pendings = state.pending_offsets.setdefault(group_id, {}).setdefault(position, {})
    state.open_producers.setdefault(producer_id, {})[group_id, topic, partition] = None
    replaced = pendings.get(producer_id)
    pendings[producer_id] = value
    return replaced


def _removed(state: ShardState, group_id: str, position: tuple[str, int], producer_id: int) -> Value | None:
    group = state.pending_offsets.get(group_id)
    pendings = None if group is None else group.get(position)
    replaced = None if pendings is None else pendings.pop(producer_id, None)
    if replaced is None:
        return None
    assert group is not None
    if not pendings:
        del group[position]
        if not group:
            del state.pending_offsets[group_id]
    opened = state.open_producers[producer_id]
    del opened[group_id, *position]
    if not opened:
        del state.open_producers[producer_id]
    return replaced


def records(state: ShardState) -> Iterator[Record]:
    for group_id, positions in live_items(state.pending_offsets, list(state.pending_offsets)):
        for (topic, partition), pendings in live_items(positions, list(positions)):
            for producer_id, value in live_items(pendings, list(pendings)):
                yield Record(
                    PendingTxnOffsetKey(PENDING_TXN_OFFSET, group_id, topic, partition, producer_id), value
                )
