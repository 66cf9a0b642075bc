"""Committed offsets as they are kept: how records of them are applied, undone, and told to a snapshot.

An offset with metadata, or of a partition that is committed alone, is one OFFSET_COMMIT record. A commit of
several partitions of a topic is one OFFSET_ROWS, which costs every replica little more than a single offset
does: nothing is made of its rows (see `ground.group_offsets`). Tiers at level 1 have OFFSET_BATCH in its
place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat

from actors.coordinator.ground.group_offsets import GroupOffsets, ReplacedOffsets, pairs_of
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Key, Record, Value, new_tuple
from actors.ground.records import (
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    OffsetBatchValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRowsKey,
    OffsetRowsValue,
    Position,
)
from actors.ground.snapshot_build import live_items
from actors.protocol.offset_rows import packed, partitions_of


def apply_one(state: ShardState, key: Key, value: Value | None) -> Value | None:
    _, group_id, topic, partition = key
    position = (topic, partition)
    offsets = state.offsets.get(group_id)
    if type(value) is OffsetCommitValue and offsets is not None and not state.readings:
        return offsets.put_one(position, value)
    if type(value) is ReplacedOffsets:
        return _put_back(state, group_id, topic, value)
    replaced: OffsetCommitValue | ReplacedOffsets | None
    if offsets is None:
        if value is None:
            return None
        offsets = state.offsets[group_id] = GroupOffsets()
    before = offsets.get(position) if state.readings else None
    was_object = position in offsets.loose
    if value is None:
        replaced = offsets.remove(position)
        if not offsets:
            del state.offsets[group_id]
    else:
        assert isinstance(value, OffsetCommitValue)
        replaced = offsets.put_one(position, value)
    for reading in state.readings:
        is_steady = value is not None and type(replaced) is OffsetCommitValue
        is_steady = is_steady and was_object is (position in offsets.loose)
        reading.note(group_id, position, before, is_steady)
    return replaced


def apply_rows(state: ShardState, key: Key, value: Value | None) -> Value | None:
    _, group_id, topic = key
    if type(value) is ReplacedOffsets:
        return _put_back(state, group_id, topic, value)
    if value is None:
        return _put_back(state, group_id, topic, ReplacedOffsets(()))
    assert isinstance(value, OffsetRowsValue)
    blocks = value[0]
    offsets = state.offsets.get(group_id)
    if offsets is None:
        offsets = state.offsets[group_id] = GroupOffsets()
    found, state.found_before = state.found_before, None
    if state.readings:
        return _put_and_tell(state, group_id, topic, value)
    kept = offsets.blocks if topic == offsets.topic else offsets.more.get(topic)
    if found is not None and found[0] is blocks[0] and kept is found[1]:
        return offsets.put_at(topic, *found[1:], blocks[0])
    return offsets.put(topic, blocks)


def apply_batch(state: ShardState, key: Key, value: Value | None) -> Value | None:
    """Apply a batch as rows. Of a partition that is named twice the last offset counts."""
    if type(value) is ReplacedOffsets:
        return _put_back(state, key[1], key[2], value)
    assert isinstance(value, OffsetBatchValue)
    partitions, offsets, leader_epochs, *others = value
    last = {each[0]: each for each in zip(partitions, offsets, leader_epochs, strict=True)}
    block = (packed(last.values()), *others)
    return apply_rows(state, key, new_tuple(OffsetRowsValue, ((block,),)))


def _put_back(state: ShardState, group_id: str, topic: str, replaced: ReplacedOffsets) -> ReplacedOffsets:
    offsets = state.offsets.get(group_id)
    if offsets is None:
        offsets = state.offsets[group_id] = GroupOffsets()
    if state.readings:
        gone = chain.from_iterable(partitions_of(block[0]) for block in offsets.blocks_of(topic))
        come = chain.from_iterable(partitions_of(block[0]) for block in replaced.blocks)
        positions = [*zip(repeat(topic), chain(gone, come)), *(position for position, _ in replaced.loose)]
        _tell_readings(state, group_id, offsets, positions)
    undone = offsets.put_back(topic, replaced)
    if not offsets:
        del state.offsets[group_id]
    return undone


def _put_and_tell(state: ShardState, group_id: str, topic: str, value: OffsetRowsValue) -> ReplacedOffsets:
    offsets = state.offsets[group_id]
    partitions = chain.from_iterable(partitions_of(block[0]) for block in value.blocks)
    before = [(position, offsets.get(position)) for position in zip(repeat(topic), partitions)]
    replaced = offsets.put(topic, value.blocks)
    for position, committed in before:
        for reading in state.readings:
            reading.note(group_id, position, committed, replaced.is_steady)
    return replaced


def _tell_readings(
    state: ShardState, group_id: str, offsets: GroupOffsets, positions: Iterable[Position]
) -> None:
    """Tell readings that these offsets are about to change, or to be kept elsewhere."""
    for position in positions:
        for reading in state.readings:
            reading.note(group_id, position, offsets.get(position), is_steady=False)


def singles(key: Key, replaced: Value | None) -> Iterable[tuple[Key, Value | None]]:
    """Return what a record replaced by the keys of `records`, as `actors.ground.contract.Shard.singles`
    says."""
    if type(replaced) is not ReplacedOffsets:
        return ((key, replaced),)
    _, group_id, topic = key[:3]
    rows = new_tuple(OffsetRowsKey, (OFFSET_ROWS, group_id, topic))
    blocks = OffsetRowsValue(replaced.blocks) if replaced.blocks else None
    loose = (
        (OffsetCommitKey(OFFSET_COMMIT, group_id, *position), value) for position, value in replaced.loose
    )
    return ((rows, blocks), *loose)


def one_by_one(key: Key, value: Value) -> Iterable[tuple[Key, Value]]:
    """Return the records of a state as they were before there were rows: an OFFSET_COMMIT for each offset."""
    if key[0] != OFFSET_ROWS:
        return ((key, value),)
    _, group_id, topic = key
    blocks = value[0]
    return (
        (OffsetCommitKey(OFFSET_COMMIT, group_id, *position), committed)
        for position, committed in pairs_of(topic, blocks)
    )


def records(state: ShardState) -> Iterator[Record]:
    for group_id, offsets in live_items(state.offsets, list(state.offsets)):
        for topic in [topic for topic, _ in offsets.packed_topics()]:
            blocks = offsets.blocks_of(topic)
            if not blocks:
                continue  # it has gone while the walk paused
            yield Record(OffsetRowsKey(OFFSET_ROWS, group_id, topic), OffsetRowsValue(blocks))
        for position in list(offsets.singles()):
            committed = offsets.single(position)
            if committed is not None:
                yield Record(OffsetCommitKey(OFFSET_COMMIT, group_id, *position), committed)


APPLIERS = {OFFSET_COMMIT: apply_one, OFFSET_BATCH: apply_batch, OFFSET_ROWS: apply_rows}
