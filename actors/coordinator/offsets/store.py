"""Committed offsets as they are kept: how records of them are applied, undone, and told to a snapshot.

A partition's offset is one OFFSET_COMMIT record. A commit of several partitions of a topic travels through
the log as one OFFSET_BATCH, which costs every replica little more than a single offset does: the loops over
its partitions run in C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

from actors.coordinator.ground.state import ShardState
from actors.coordinator.ground.volatile import FoundBefore, ReplacedOffsets
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OffsetBatchValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Position,
)
from actors.ground.snapshot_build import live_items

_new: Any = tuple.__new__


def found_before(
    offsets: Mapping[Position, OffsetCommitValue], topic: str, partitions: Iterable[int]
) -> ReplacedOffsets:
    """Return what a batch would replace: looking it up is most of the work of applying it."""
    positions = tuple(zip(repeat(topic), partitions))
    replaced: ReplacedOffsets = _new(ReplacedOffsets, (positions, tuple(map(offsets.get, positions))))
    return replaced


def leave_for_apply(state: ShardState, value: OffsetBatchValue, replaced: ReplacedOffsets) -> None:
    """Spare the apply of `value` its look-up: the host applies a decision's records before anything else is
    decided. `apply_batch` believes it for this very value alone, and every apply of offsets drops it."""
    state.found_before = FoundBefore(value, replaced)


def apply_one(state: ShardState, key: Key, value: Value | None) -> Value | None:
    state.found_before = None
    _, group_id, topic, partition = key
    offsets = state.offsets.get(group_id)
    if value is None:
        if offsets is None:
            return None
        replaced = offsets.pop((topic, partition), None)
        if not offsets:
            del state.offsets[group_id]
        if state.readings:
            _tell_readings(state, group_id, ((topic, partition),), (replaced,))
        return replaced
    assert isinstance(value, OffsetCommitValue)
    if offsets is None:
        offsets = state.offsets[group_id] = {}
    position = (topic, partition)
    replaced = offsets.get(position)
    offsets[position] = value
    if state.readings:
        _tell_readings(state, group_id, (position,), (replaced,))
    return replaced


def apply_batch(state: ShardState, key: Key, value: Value | None) -> Value | None:
    _, group_id, topic = key
    offsets = state.offsets.get(group_id)
    if offsets is None:
        offsets = state.offsets[group_id] = {}
    found, state.found_before = state.found_before, None
    if isinstance(value, ReplacedOffsets):
        return _undo(state, group_id, offsets, value)
    assert isinstance(value, OffsetBatchValue)
    partitions, committed, leader_epochs, commit_ms, expire_ms, topic_id = value
    if found is not None and found.value is value:
        replaced = found.replaced
    else:
        replaced = found_before(offsets, topic, partitions)
    fields = zip(committed, leader_epochs, repeat(""), repeat(commit_ms), repeat(expire_ms), repeat(topic_id))
    values = map(_new, repeat(OffsetCommitValue), fields)
    offsets.update(zip(replaced[0], values, strict=True))
    if state.readings:
        _tell_readings(state, group_id, *replaced)
    return replaced


def _tell_readings(
    state: ShardState,
    group_id: str,
    positions: Iterable[Position],
    replaced: Iterable[OffsetCommitValue | None],
) -> None:
    for position, value in zip(positions, replaced, strict=True):
        for reading in state.readings:
            reading.note(group_id, position, value)


def _undo(
    state: ShardState, group_id: str, offsets: dict[Position, OffsetCommitValue], replaced: ReplacedOffsets
) -> ReplacedOffsets:
    undone = ReplacedOffsets(replaced.positions, tuple(map(offsets.get, replaced.positions)))
    for position, value in zip(*replaced, strict=True):
        if value is None:
            offsets.pop(position, None)
        else:
            offsets[position] = value
    if not offsets:
        del state.offsets[group_id]
    if state.readings:
        _tell_readings(state, group_id, *undone)
    return undone


def singles(key: Key, replaced: Value | None) -> Iterable[tuple[Key, Value | None]]:
    """Return the single records that a record stands for, as `actors.ground.contract.Shard.singles` says."""
    if not isinstance(replaced, ReplacedOffsets):
        return ((key, replaced),)
    keys = (OffsetCommitKey(OFFSET_COMMIT, key[1], *position) for position in replaced.positions)
    return zip(keys, replaced.values, strict=True)


def records(state: ShardState) -> Iterator[Record]:
    for group_id, offsets in live_items(state.offsets, list(state.offsets)):
        for (topic, partition), committed in live_items(offsets, list(offsets)):
            yield Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), committed)


APPLIERS = {OFFSET_COMMIT: apply_one, OFFSET_BATCH: apply_batch}
