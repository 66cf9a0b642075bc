"""The committed offsets of one group, as they are kept.

Most are kept in the blocks that commits bring: rows of 16 bytes, with what is the same for all of them beside
(see `OffsetRows`). A member commits the same partitions again and again, so its new block takes the place of
the one before, whatever its size. What does not fit is kept one by one, as `OffsetCommitValue`: offsets with
metadata, and partitions that are committed alone. No partition is kept twice. How an offset is kept says
nothing about it: it depends on the order of commits since the last start, and replicas differ in it.

Blocks are never changed, only replaced. So to remember what a commit replaces is to keep the tuple of a
topic's blocks; it undoes the commit, and it is what a snapshot takes that began before it.
"""

from __future__ import annotations

import struct
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import chain, repeat
from sys import intern
from typing import Any, Final, NamedTuple

from actors.ground.contract import new_tuple
from actors.ground.records import OffsetCommitValue, OffsetRows, Position
from actors.protocol.offset_rows import (
    ROW_BYTES,
    are_of_the_same,
    chunks_of,
    layout_of,
    numbers_of,
    partitions_of,
)

BLOCKS_MAX: Final = 32
"""How many blocks of a topic a group has at most, because each of them is looked at. Where more members
commit, what the others commit is kept one by one."""
CUT_ROWS_MAX: Final = 32
"""How many rows are left in a block from which one is taken out."""
Blocks = tuple[OffsetRows, ...]
_ROW: Final = struct.Struct(">iqi")
_PARTITION: Final = struct.Struct(">i")
_NO_ROWS: Final[dict[str, Blocks]] = {}
_NO_LOOSE: Final[dict[Position, OffsetCommitValue]] = {}
"""What a group has that has none, so that nobody pays for an empty one. Neither is ever written."""


class ReplacedOffsets(NamedTuple):
    """What a change of a topic's blocks has replaced, never in a log: applied with the same key it undoes the
    change."""

    blocks: Blocks
    """All blocks of the topic, as they were."""
    loose: tuple[tuple[Position, OffsetCommitValue | None], ...] = ()
    """What has changed of the offsets that are kept one by one, as it was."""
    is_steady: bool = False
    """Whether every offset of the topic is kept at the place where it was."""


class GroupOffsets(Mapping[Position, OffsetCommitValue]):
    """A mapping of positions to what is committed there. Empty ones are not kept: whoever removes an offset
    looks whether it was the last."""

    __slots__ = ("blocks", "loose", "more", "topic")

    def __init__(self) -> None:
        self.topic: str | None = None
        """A topic that has blocks; most groups have one such topic, and a dict would take more memory than a
        dozen offsets."""
        self.blocks: Blocks = ()
        """The blocks of `topic`, at least one; () if there is none."""
        self.more = _NO_ROWS
        """Other topic -> its blocks, at least one."""
        self.loose = _NO_LOOSE
        """What is kept one by one. Only this class changes any of these."""

    # Read.

    def __len__(self) -> int:
        rows = sum(len(block[0]) for _, blocks in self.packed_topics() for block in blocks)
        return rows // ROW_BYTES + len(self.loose)

    def __bool__(self) -> bool:
        return bool(self.blocks or self.more or self.loose)

    def __iter__(self) -> Iterator[Position]:
        for topic, blocks in self.packed_topics():
            for block in blocks:
                yield from zip(repeat(topic), partitions_of(block[0]))
        yield from self.loose

    def __contains__(self, position: object) -> bool:
        return self.get(position) is not None

    def __getitem__(self, position: Position) -> OffsetCommitValue:
        value: OffsetCommitValue | None = self.get(position)
        if value is None:
            raise KeyError(position)
        return value

    def get(self, position: Any, default: Any = None) -> Any:
        """Return what is committed at a position."""
        value = self.loose.get(position)
        if value is not None:
            return value
        for block in self.blocks_of(position[0]):
            at = _row_of(block[0], position[1])
            if at >= 0:
                _, offset, leader_epoch = _ROW.unpack_from(block[0], ROW_BYTES * at)
                return new_tuple(OffsetCommitValue, (offset, leader_epoch, "", *block[1:]))
        return default

    def items(self) -> ItemsView[Position, OffsetCommitValue]:
        return _Items(self)

    def values(self) -> ValuesView[OffsetCommitValue]:
        return _Values(self)

    def pairs(self) -> Iterator[tuple[Position, OffsetCommitValue]]:
        """Yield each position with its offset."""
        for topic, blocks in self.packed_topics():
            yield from pairs_of(topic, blocks)
        yield from self.loose.items()

    def blocks_of(self, topic: str) -> Blocks:
        """Return the blocks of a topic, () if it has none."""
        return self.blocks if topic == self.topic else self.more.get(topic, ())

    def packed_topics(self) -> list[tuple[str, Blocks]]:
        """Return the topics that have blocks, with them."""
        found = list(self.more.items())
        if self.topic is not None:
            found.append((self.topic, self.blocks))
        return found

    def many(self, positions: Iterable[Position]) -> dict[Position, OffsetCommitValue]:
        """Return what `get` would find at each of these positions, without those that have nothing."""
        found: dict[Position, OffsetCommitValue] = {}
        wanted: dict[str, set[int]] = {}
        for position in positions:
            value = self.loose.get(position)
            if value is not None:
                found[position] = value
            elif self.blocks_of(position[0]):
                wanted.setdefault(position[0], set()).add(position[1])
        for topic, partitions in wanted.items():
            for block in self.blocks_of(topic):
                if not partitions.isdisjoint(layout_of(block[0]).partitions):
                    found.update(each for each in pairs_of(topic, (block,)) if each[0][1] in partitions)
        return found

    def partitions(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, both ascending."""
        found: dict[str, list[int]] = {}
        for topic, blocks in self.packed_topics():
            found[topic] = list(chain.from_iterable(layout_of(block[0]).partitions for block in blocks))
        for topic, partition in self.loose:
            found.setdefault(topic, []).append(partition)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    def packed(self, topic: str, partitions: Sequence[int], topic_id: bytes | None) -> bytes | None:
        """Return the rows of these partitions, in their order, if all are kept in blocks; with a `topic_id`,
        if all were committed under it. Else None."""
        blocks = self.blocks_of(topic)
        if not blocks or not partitions:
            return None
        if topic_id is not None and any(block[3] != topic_id for block in blocks):
            return None
        for block in blocks:
            if layout_of(block[0]).partitions == partitions:
                return block[0]
        found: dict[int, bytes] = {}
        for block in blocks:
            found.update(zip(layout_of(block[0]).partitions, chunks_of(block[0]), strict=True))
        try:
            return b"".join(map(found.__getitem__, partitions))
        except KeyError:
            return None

    # Change.

    def put(self, topic: str, blocks: Blocks) -> ReplacedOffsets:
        """Write the offsets of blocks."""
        before = self.blocks if topic == self.topic else self.more.get(topic, ())
        if len(blocks) == 1:
            if len(before) == 1 and are_of_the_same(before[0][0], blocks[0][0]):  # nearly always
                return self.put_at(topic, before, 0, blocks[0])
            at = place_of(before, blocks[0][0])
            if at >= 0:
                return self.put_at(topic, before, at, blocks[0])
        replaced: dict[Position, OffsetCommitValue | None] = {}
        for block in blocks:
            self._put_new(topic, block, replaced)
        return ReplacedOffsets(before, tuple(replaced.items()))

    def put_at(self, topic: str, before: Blocks, at: int, block: OffsetRows) -> ReplacedOffsets:
        """Write a block in the place of `before[at]`, which is of the same partitions; `before` are the
        blocks of the topic."""
        blocks = (block,) if len(before) == 1 else (*before[:at], block, *before[at + 1 :])
        if topic == self.topic:
            self.blocks = blocks
        else:
            self.more[topic] = blocks
        replaced: ReplacedOffsets = new_tuple(ReplacedOffsets, (before, (), True))
        return replaced

    def put_one(
        self, position: Position, value: OffsetCommitValue
    ) -> OffsetCommitValue | ReplacedOffsets | None:
        """Write an offset that is kept for itself. Return what it replaced."""
        before = self.loose.get(position)
        if before is not None:
            self.loose[position] = value
            return before
        replaced = self._taken_out(position)
        self._set_loose(position, value)
        return replaced

    def remove(self, position: Position) -> OffsetCommitValue | ReplacedOffsets | None:
        """Remove an offset. Return what was there."""
        before = self.loose.pop(position, None)
        return self._taken_out(position) if before is None else before

    def put_back(self, topic: str, replaced: ReplacedOffsets) -> ReplacedOffsets:
        """Undo a change of a topic. Return what undoes that."""
        undone = ReplacedOffsets(
            self.blocks_of(topic),
            tuple((position, self.loose.get(position)) for position, _ in replaced.loose),
        )
        self._set(topic, replaced.blocks)
        for position, value in replaced.loose:
            self._set_loose(position, value)
        return undone

    def _put_new(
        self, topic: str, block: OffsetRows, replaced: dict[Position, OffsetCommitValue | None]
    ) -> None:
        """Write a block of partitions that were not committed together before. `replaced` takes what becomes
        of those that are kept one by one."""
        partitions = layout_of(block[0]).partitions
        before = self.blocks_of(topic)
        loose = [each for each in zip(repeat(topic), partitions) if each in self.loose] if self.loose else []
        if len(before) >= BLOCKS_MAX and len(loose) == len(partitions):
            self._keep_one_by_one(topic, block, replaced)
            return
        for position in loose:
            replaced.setdefault(position, self.loose.pop(position))
        wanted = set(partitions)
        blocks = [rest for each in before if (rest := _without(each, wanted)) is not None]
        blocks.append(block)
        if len(blocks) > BLOCKS_MAX:
            least = min(blocks, key=lambda each: len(each[0]))
            spilled = least if 2 * len(least[0]) < len(block[0]) else block
            blocks.remove(spilled)
            self._keep_one_by_one(topic, spilled, replaced)
        self._set(topic, tuple(blocks))

    def _keep_one_by_one(
        self, topic: str, block: OffsetRows, replaced: dict[Position, OffsetCommitValue | None]
    ) -> None:
        for position, value in pairs_of(topic, (block,)):
            replaced.setdefault(position, self.loose.get(position))
            self._set_loose(position, value)

    def _taken_out(self, position: Position) -> ReplacedOffsets | None:
        """Take an offset out of the block that has it. Return what was there, None if none has it.

        What is left of a large block is kept one by one, because the next ones may be about to go too: a copy
        of a block for each of its rows would be costly.
        """
        topic, partition = position
        before = self.blocks_of(topic)
        at = next((at for at, block in enumerate(before) if _row_of(block[0], partition) >= 0), None)
        if at is None:
            return None
        rest = _without(before[at], {partition})
        if rest is None or len(rest[0]) <= CUT_ROWS_MAX * ROW_BYTES:
            self._set(topic, (*before[:at], *(() if rest is None else (rest,)), *before[at + 1 :]))
            return ReplacedOffsets(before, ((position, None),))
        replaced: dict[Position, OffsetCommitValue | None] = {position: None}
        self._set(topic, (*before[:at], *before[at + 1 :]))
        self._keep_one_by_one(topic, rest, replaced)
        return ReplacedOffsets(before, tuple(replaced.items()))

    def _set(self, topic: str, blocks: Blocks) -> None:
        if topic == self.topic or (self.topic is None and blocks and topic not in self.more):
            self.topic, self.blocks = intern(topic) if blocks else None, blocks
        elif blocks:
            if self.more is _NO_ROWS:
                self.more = {}
            self.more[intern(topic)] = blocks
        else:
            self.more.pop(topic, None)

    def _set_loose(self, position: Position, value: OffsetCommitValue | None) -> None:
        if value is None:
            self.loose.pop(position, None)
            return
        if self.loose is _NO_LOOSE:
            self.loose = {}
        # Each record that is read has a topic's name of its own.
        self.loose[intern(position[0]), position[1]] = value


NO_OFFSETS: Final = GroupOffsets()
"""What a group has that has committed nothing. Nobody writes to it."""


class _Items(ItemsView[Position, OffsetCommitValue]):
    _mapping: GroupOffsets

    def __iter__(self) -> Iterator[tuple[Position, OffsetCommitValue]]:
        return self._mapping.pairs()


class _Values(ValuesView[OffsetCommitValue]):
    _mapping: GroupOffsets

    def __iter__(self) -> Iterator[OffsetCommitValue]:
        return (value for _, value in self._mapping.pairs())


def pairs_of(topic: str, blocks: Iterable[OffsetRows]) -> Iterator[tuple[Position, OffsetCommitValue]]:
    """Yield each position of blocks of a topic with its offset."""
    for rows, *others in blocks:
        for partition, offset, leader_epoch in numbers_of(rows):
            yield (topic, partition), new_tuple(OffsetCommitValue, (offset, leader_epoch, "", *others))


def place_of(blocks: Blocks, rows: bytes) -> int:
    """Return which of a topic's blocks is of the same partitions as these rows, in the same order; -1 if none
    is."""
    first = rows[:4]
    for at, block in enumerate(blocks):
        if block[0][:4] == first:  # no other block has this partition
            return at if are_of_the_same(block[0], rows) else -1
    return -1


def _row_of(rows: bytes, partition: int) -> int:
    """Return which of the rows is the partition's, -1 if none is. It is where it would be if all were as far
    apart as the first two, or is searched for."""
    first, step = _PARTITION.unpack_from(rows)[0], 1
    if len(rows) > ROW_BYTES:
        step = _PARTITION.unpack_from(rows, ROW_BYTES)[0] - first
    at, rest = divmod(partition - first, step)
    if (
        not rest
        and 0 <= at < len(rows) // ROW_BYTES
        and _PARTITION.unpack_from(rows, ROW_BYTES * at)[0] == partition
    ):
        return int(at)
    try:
        return partitions_of(rows).index(partition)
    except ValueError:
        return -1


def _without(block: OffsetRows, partitions: set[int]) -> OffsetRows | None:
    """Return the block without these partitions, None if nothing is left of it."""
    rows, *others = block
    own = layout_of(rows).partitions
    if partitions.isdisjoint(own):
        return block
    rest = [
        chunk for partition, chunk in zip(own, chunks_of(rows), strict=True) if partition not in partitions
    ]
    return (b"".join(rest), *others) if rest else None  # type: ignore[return-value]
