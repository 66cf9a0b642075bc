"""Offsets of one topic that are committed alone, each at a time of its own: packed in one piece of bytes.

The piece begins with what is the same for all of them, the topic's id and the time at which they expire.
Rows of 24 bytes follow, ascending by partition: partition (int32), offset (int64), leader epoch (int32),
which are a row as it travels (`actors.protocol.offset_rows`), and commit_timestamp_ms (int64), big-endian. As
an object such an offset would take 300 bytes.

Few rows are `bytes`, which are replaced by each commit, many a `bytearray`, which is written in place. Who
keeps a piece gives it to `put` or `without`, and keeps what that returns in its place.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from actors.coordinator.ground.alike import shared_id
from actors.ground.contract import new_tuple
from actors.ground.records import OffsetCommitValue

Alone = bytes | bytearray
NONE: Final = b""
"""What a topic has of which nothing is committed alone."""
IN_PLACE_FROM: Final = 32
"""The number of rows from which on they are written in place."""
_HEADER: Final = struct.Struct(">16sq")
_ROW: Final = struct.Struct(">iqiq")
_PARTITION: Final = struct.Struct(">i")
_TRAVELLING: Final = struct.Struct(">16s8x")
_HEADER_BYTES: Final = _HEADER.size
_ROW_BYTES: Final = _ROW.size
_ID_BYTES: Final = 16
_EXPIRE_MAX: Final = 2**63 - 1
Row = tuple[int, int, int, int]
"""(partition, offset, leader epoch, commit_timestamp_ms)"""


def count(alone: Alone) -> int:
    return max(len(alone) - _HEADER_BYTES, 0) // _ROW_BYTES


def row_of(alone: Alone, partition: int) -> tuple[int, Row] | None:
    """Return where a partition's row is, and the row; None if it has none. It is where it would be if no
    partition were missing, or is searched for."""
    if not alone:
        return None
    row: Row = _ROW.unpack_from(alone, _HEADER_BYTES)
    if row[0] == partition:
        return _HEADER_BYTES, row
    at = _HEADER_BYTES + (partition - row[0]) * _ROW_BYTES
    if _HEADER_BYTES < at < len(alone):
        row = _ROW.unpack_from(alone, at)
        if row[0] == partition:
            return at, row
    at = _place_for(alone, partition)
    if at < len(alone):
        row = _ROW.unpack_from(alone, at)
        if row[0] == partition:
            return at, row
    return None


def offset_of(alone: Alone, partition: int) -> int | None:
    """Return the offset of a partition's row, None if it has none."""
    row: Row = _ROW.unpack_from(alone, _HEADER_BYTES)
    if row[0] == partition:
        return row[1]
    found = row_of(alone, partition)
    return None if found is None else found[1][1]


def value_of(alone: Alone, row: Row) -> OffsetCommitValue:
    """Return the offset that a row stands for."""
    topic_id, expire_timestamp_ms = _HEADER.unpack_from(alone)
    value: OffsetCommitValue = new_tuple(
        OffsetCommitValue, (row[1], row[2], "", row[3], expire_timestamp_ms, shared_id(topic_id))
    )
    return value


def takes(alone: Alone, value: OffsetCommitValue) -> bool:
    """Whether an offset may be a row here: it has no metadata, and what is the same for all of them."""
    if value[2] or len(value[5]) != _ID_BYTES or value[4] > _EXPIRE_MAX:
        return False
    return not alone or alone[:_HEADER_BYTES] == _HEADER.pack(value[5], value[4])


def exchange(
    alone: Alone, partition: int, value: OffsetCommitValue
) -> tuple[Alone, OffsetCommitValue] | None:
    """Write an offset in the place of the one that the partition has here. Return the piece that has it, and
    what it replaced; None if nothing is in its place, or it is not taken here. A member's every commit of one
    partition comes through here, so this calls little."""
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = value
    if metadata or _HEADER.unpack_from(alone) != (topic_id, expire_ms):
        return None
    at = _HEADER_BYTES
    row: Row = _ROW.unpack_from(alone, at)
    if row[0] != partition:
        found = row_of(alone, partition)
        if found is None:
            return None
        at, row = found
    packed = _ROW.pack(partition, offset, leader_epoch, commit_ms)
    before = new_tuple(OffsetCommitValue, (row[1], row[2], "", row[3], expire_ms, topic_id))
    if type(alone) is bytes:
        return alone[:at] + packed + alone[at + _ROW_BYTES :], before
    alone[at : at + _ROW_BYTES] = packed  # type: ignore[index]
    return alone, before


def put(alone: Alone, at: int | None, partition: int, value: OffsetCommitValue) -> Alone:
    """Write an offset that is taken here: in the place of the row at `at`, or as a new row if that is None.
    Return the piece that has it."""
    row = _ROW.pack(partition, value[0], value[1], value[3])
    if not alone:
        return _HEADER.pack(value[5], value[4]) + row
    end = _ROW_BYTES
    if at is None:
        at, end = _place_for(alone, partition), 0
        if count(alone) >= IN_PLACE_FROM and type(alone) is bytes:
            alone = bytearray(alone)
    if type(alone) is bytes:
        return alone[:at] + row + alone[at + end :]
    alone[at : at + end] = row  # type: ignore[index]
    return alone


def without(alone: Alone, at: int) -> Alone:
    """Return what is left if the row at `at` is gone."""
    if count(alone) == 1:
        return NONE
    if type(alone) is bytes:
        return alone[:at] + alone[at + _ROW_BYTES :]
    del alone[at : at + _ROW_BYTES]  # type: ignore[union-attr]
    return alone


def rows_of(alone: Alone) -> Iterator[Row]:
    """Yield the rows as they are now, whatever becomes of them while they are looked at."""
    return _ROW.iter_unpack(bytes(alone[_HEADER_BYTES:]))


def travelling(alone: Alone) -> Iterator[tuple[int, bytes]]:
    """Yield each partition with its row as it travels."""
    rows = bytes(alone[_HEADER_BYTES:])
    for (row,), (partition, _, _, _) in zip(
        _TRAVELLING.iter_unpack(rows), _ROW.iter_unpack(rows), strict=True
    ):
        yield partition, row


def topic_id_of(alone: Alone) -> bytes:
    return bytes(alone[:_ID_BYTES])


def _place_for(alone: Alone, partition: int) -> int:
    """Return where the row of a partition is, or would be."""

    def at(number: int) -> int:
        found: int = _PARTITION.unpack_from(alone, _HEADER_BYTES + number * _ROW_BYTES)[0]
        return found

    return _HEADER_BYTES + bisect_left(range(count(alone)), partition, key=at) * _ROW_BYTES
