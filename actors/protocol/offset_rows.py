"""Offsets of one topic as they travel: rows of 16 bytes, of which nobody makes objects on their usual way.

A row is what OffsetCommit has of a partition without metadata: partition (int32), offset (int64), leader
epoch (int32), big-endian. The request's rows become the record's, the record's are kept, and OffsetFetch
answers with them. Whoever looks at single rows finds them in `CommittedRows`, `FineRows` and `FetchedRows` as
the tuples that `actors.protocol.messages` describes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from operator import add, lt
from typing import Any, Final

from actors.protocol.messages import NO_ERROR, CommittedRow, FetchedRow

ROW_BYTES: Final = 16
ROWS_AT_ONCE_MAX: Final = 512
"""How many rows one call packs or unpacks: a layout is remembered for each number of them."""
LAYOUTS_MAX: Final = 256
"""How many layouts of each kind are remembered: all of them take 20 MB at most."""
_ROW: Final = struct.Struct(">iqi")
_PARTITION: Final = struct.Struct(">i12x")
_OFFSET: Final = struct.Struct(">4xq4x")
_CHUNK: Final = struct.Struct("16s")
_EMPTY_METADATA: Final = ("",)
_FINE: Final = ("", NO_ERROR)


@lru_cache(maxsize=LAYOUTS_MAX)
def repeated(row: str, count: int) -> struct.Struct:
    """Return the layout of so many rows behind each other."""
    return struct.Struct(">" + row * count)


def partitions_of(rows: bytes) -> tuple[int, ...]:
    """Return the partitions of rows, in their order."""
    count = len(rows) // ROW_BYTES
    if count <= ROWS_AT_ONCE_MAX:
        return repeated("i12x", count).unpack(rows)
    return tuple(partition for (partition,) in _PARTITION.iter_unpack(rows))


def offsets_of(rows: bytes) -> tuple[int, ...]:
    """Return the offsets of rows, in their order."""
    count = len(rows) // ROW_BYTES
    if count <= ROWS_AT_ONCE_MAX:
        return repeated("4xq4x", count).unpack(rows)
    return tuple(offset for (offset,) in _OFFSET.iter_unpack(rows))


def chunks_of(rows: bytes) -> Sequence[bytes]:
    """Return each row for itself."""
    count = len(rows) // ROW_BYTES
    if count <= ROWS_AT_ONCE_MAX:
        return repeated("16s", count).unpack(rows)
    return [chunk for (chunk,) in _CHUNK.iter_unpack(rows)]


def numbers_of(rows: bytes) -> Iterator[tuple[int, int, int]]:
    """Return partition, offset and leader epoch of each row."""
    return _ROW.iter_unpack(rows)


unpack_row = _ROW.unpack
"""A function that returns partition, offset and leader epoch of one row."""


def packed(rows: Iterable[tuple[Any, ...]]) -> bytes:
    """Pack rows that begin with partition, offset and leader epoch. Raises struct.error if one does not
    fit."""
    pack = _ROW.pack
    return b"".join([pack(row[0], row[1], row[2]) for row in rows])


def spaced(rows: bytes, between: bytes) -> bytes:
    """Return the rows with the same bytes behind each of them."""
    return between.join(chunks_of(rows)) + between


def column_of(rows: bytes) -> bytes:
    """Return what is the same for two blocks of rows if they are of the same partitions in the same order:
    the bytes of the partitions, the low ones first, because they differ soonest."""
    return rows[3::16] + rows[2::16] + rows[1::16] + rows[0::16]


def are_of_the_same(rows: bytes, others: bytes) -> bool:
    """Whether these are of the same partitions in the same order."""
    return (
        len(rows) == len(others)
        and rows[3::16] == others[3::16]
        and rows[2::16] == others[2::16]
        and rows[1::16] == others[1::16]
        and rows[0::16] == others[0::16]
    )


@lru_cache(maxsize=LAYOUTS_MAX)
def _bits(count: int) -> tuple[int, int, int]:
    """Return, of so many rows as one number, the bits of the partitions, those of the offsets without their
    signs, and the signs."""
    parts = (b"\xff\xff\xff\xff" + bytes(12), bytes(4) + b"\x7f" + b"\xff" * 7 + bytes(4))
    partitions, offsets = (int.from_bytes(part * count, "big") for part in parts)
    return partitions, offsets, int.from_bytes((bytes(4) + b"\x80" + bytes(11)) * count, "big")


def goes_back(rows: bytes, before: bytes) -> bool | None:
    """Return whether an offset of the rows is lower than the one before; None if these are not of the same
    partitions in the same order.

    All rows are subtracted at once: each offset borrows from its own sign bit if it is the lower one.
    """
    if len(rows) != len(before):
        return None
    count = len(rows) // ROW_BYTES
    if count > ROWS_AT_ONCE_MAX:
        return any(map(lt, offsets_of(rows), offsets_of(before))) if are_of_the_same(rows, before) else None
    partitions, offsets, signs = _bits(count)
    new, old = int.from_bytes(rows, "big"), int.from_bytes(before, "big")
    if (new ^ old) & partitions:
        return None
    if (new | old) & signs:
        return any(map(lt, offsets_of(rows), offsets_of(before)))
    return ((new & offsets | signs) - (old & offsets)) & signs != signs


class Layout:
    """The partitions of a block of rows: clients commit the same ones again and again."""

    __slots__ = ("answers", "highest", "is_distinct", "lowest", "partitions")

    def __init__(self, partitions: tuple[int, ...]) -> None:
        self.partitions = partitions
        self.lowest = min(partitions)
        self.highest = max(partitions)
        self.is_distinct = len(set(partitions)) == len(partitions)
        """Whether no partition is named twice."""
        self.answers: dict[bytes, bytes] = {}
        """What stands behind each partition in an answer without errors -> the answer's rows."""

    def answer(self, behind: bytes) -> bytes:
        """Return the partitions with the same bytes behind each of them."""
        answer = self.answers.get(behind)
        if answer is None:
            pack = struct.Struct(">i").pack
            answer = self.answers[behind] = behind.join(map(pack, self.partitions)) + behind
        return answer


@lru_cache(maxsize=LAYOUTS_MAX)
def _remembered(column: bytes) -> Layout:
    count = len(column) // 4
    rows = bytearray(ROW_BYTES * count)
    for place in range(4):
        rows[3 - place :: ROW_BYTES] = column[place * count : (place + 1) * count]
    return Layout(partitions_of(bytes(rows)))


def layout_of(rows: bytes) -> Layout:
    """Return the layout of rows, of which there is at least one."""
    if len(rows) <= ROW_BYTES * ROWS_AT_ONCE_MAX:
        return _remembered(column_of(rows))
    return Layout(partitions_of(rows))


class _Rows(Sequence[Any]):
    """The base of sequences of tuples that are made when somebody asks for one. Equal to a tuple of the
    same."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (_Rows, tuple, list)):
            return tuple(self) == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class CommittedRows(_Rows):
    """The partitions of one topic in OffsetCommit, none of which has metadata: CommittedRow by
    CommittedRow."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data) // ROW_BYTES

    def __iter__(self) -> Iterator[CommittedRow]:
        return map(add, _ROW.iter_unpack(self.data), repeat(_EMPTY_METADATA))


class FineRows(_Rows):
    """The partitions of one topic in an answer to OffsetCommit, none of which has an error: (partition,
    error) by (partition, error)."""

    __slots__ = ("layout",)

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __len__(self) -> int:
        return len(self.layout.partitions)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return zip(self.layout.partitions, repeat(NO_ERROR))


class FetchedRows(_Rows):
    """The partitions of one topic in an answer to OffsetFetch, none of which has metadata or an error:
    FetchedRow by FetchedRow."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data) // ROW_BYTES

    def __iter__(self) -> Iterator[FetchedRow]:
        return map(add, _ROW.iter_unpack(self.data), repeat(_FINE))
