"""The records that packed records of offsets stand for, made by a plain loop."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from actors.ground.records import (
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    OffsetCommitKey,
    OffsetCommitValue,
)

Pair = tuple[Any, Any]
"""Key and value of a record; the value None is a tombstone."""


def one_by_one(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs of records, with an OFFSET_COMMIT for each of its partitions in the place of a packed one."""
    for key, value in pairs:
        if key[0] not in (OFFSET_BATCH, OFFSET_ROWS):
            yield key, value
            continue
        _, group_id, topic = key
        for rows, times in _rows(key, value):
            for partition, offset, leader_epoch in rows:
                single = OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition)
                yield single, OffsetCommitValue(offset, leader_epoch, "", *times)


def _rows(key: Any, value: Any) -> Iterator[tuple[list[tuple[int, int, int]], list[Any]]]:
    """The (partition, offset, leader epoch) of each block, and what is the same for all of it."""
    if key[0] == OFFSET_BATCH:
        partitions, offsets, leader_epochs, *times = value
        yield list(zip(partitions, offsets, leader_epochs, strict=True)), times
        return
    (blocks,) = value
    for packed, *times in blocks:
        assert len(packed) % 16 == 0
        yield [struct.unpack(">iqi", packed[at : at + 16]) for at in range(0, len(packed), 16)], times
