"""The committed offsets of one group, as they are kept.

Most are kept in the blocks that commits bring: rows of 16 bytes, with what is the same for all of them beside
(see `OffsetRows`). A member commits the same partitions again and again, so its new block takes the place of
the one before, whatever its size. The others are kept one by one: partitions that are committed alone in
rows with a time of their own (`alone_offsets`), and what does not fit there, offsets with metadata above all,
as `OffsetCommitValue`. No partition is kept twice. How an offset is kept says nothing about it: it depends on
the order of commits since the last start, and replicas differ in it.

Blocks are never changed, only replaced. So to remember what a commit replaces is to keep the tuple of a
topic's blocks; it undoes the commit, and it is what a snapshot takes that began before it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import chain, repeat
from sys import intern
from typing import Any, Final, NamedTuple

from actors.coordinator.ground import alone_offsets
from actors.coordinator.ground.alone_offsets import Alone, row_of, value_of
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
ROWS_A_SEARCH: Final = 8
"""How many rows are looked at in the time in which one is searched for."""
Blocks = tuple[OffsetRows, ...]
_ROW: Final = struct.Struct(">iqi")
_PARTITION: Final = struct.Struct(">i")
_NO_ROWS: Final[dict[str, Blocks]] = {}
_NO_ALONE: Final[dict[str, Alone]] = {}
_NO_LOOSE: Final[dict[Position, OffsetCommitValue]] = {}
"""What a group has that has none, so that nobody pays for an empty one. None is ever written."""


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

    __slots__ = ("alone", "blocks", "loose", "more", "more_alone", "topic")

    def __init__(self) -> None:
        self.topic: str | None = None
        """A topic that has blocks or rows of its own; most groups have one such topic, and a dict would take
        more memory than a dozen offsets."""
        self.blocks: Blocks = ()
        """The blocks of `topic`, () if there is none."""
        self.alone: Alone = alone_offsets.NONE
        """What is committed alone of `topic`."""
        self.more = _NO_ROWS
        """Other topic -> its blocks, at least one."""
        self.more_alone = _NO_ALONE
        """Other topic -> what is committed alone of it, at least one offset."""
        self.loose = _NO_LOOSE
        """What is kept as an object. Only this class changes any of these."""

    # Read.

    def __len__(self) -> int:
        rows = sum(len(block[0]) for _, blocks in self.packed_topics() for block in blocks)
        alone = sum(alone_offsets.count(alone) for _, alone in self.alone_topics())
        return rows // ROW_BYTES + alone + len(self.loose)

    def __bool__(self) -> bool:
        return bool(self.blocks or self.alone or self.more or self.more_alone or self.loose)

    def __iter__(self) -> Iterator[Position]:
        for topic, blocks in self.packed_topics():
            for block in blocks:
                yield from zip(repeat(topic), partitions_of(block[0]))
        yield from self.singles()

    def __contains__(self, position: object) -> bool:
        return self.get(position) is not None

    def __getitem__(self, position: Position) -> OffsetCommitValue:
        value: OffsetCommitValue | None = self.get(position)
        if value is None:
            raise KeyError(position)
        return value

    def get(self, position: Any, default: Any = None) -> Any:
        """Return what is committed at a position."""
        value = self.single(position)
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
        for topic, alone in self.alone_topics():
            for row in alone_offsets.rows_of(alone):
                yield (topic, row[0]), value_of(alone, row)
        yield from self.loose.items()

    def single(self, position: Position) -> OffsetCommitValue | None:
        """Return what is committed at a position if it is kept for itself."""
        topic, partition = position
        alone = self.alone_of(topic)
        found = row_of(alone, partition) if alone else None
        return self.loose.get(position) if found is None else value_of(alone, found[1])

    def singles(self) -> Iterator[Position]:
        """Yield the positions whose offsets are kept one by one."""
        for topic, alone in self.alone_topics():
            for row in alone_offsets.rows_of(alone):
                yield topic, row[0]
        yield from self.loose

    def alone_of(self, topic: str) -> Alone:
        """Return what is committed alone of a topic."""
        return self.alone if topic == self.topic else self.more_alone.get(topic, alone_offsets.NONE)

    def alone_topics(self) -> list[tuple[str, Alone]]:
        """Return the topics of which something is committed alone, with that."""
        found = list(self.more_alone.items())
        if self.topic is not None and self.alone:
            found.append((self.topic, self.alone))
        return found

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
            else:
                wanted.setdefault(position[0], set()).add(position[1])
        for topic, partitions in wanted.items():
            found.update(self._alone_among(topic, partitions))
            for block in self.blocks_of(topic):
                if not partitions.isdisjoint(layout_of(block[0]).partitions):
                    found.update(each for each in pairs_of(topic, (block,)) if each[0][1] in partitions)
        return found

    def partitions(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, both ascending."""
        found: dict[str, list[int]] = {}
        for topic, blocks in self.packed_topics():
            found[topic] = list(chain.from_iterable(layout_of(block[0]).partitions for block in blocks))
        for topic, partition in self.singles():
            found.setdefault(topic, []).append(partition)
        return {topic: sorted(found[topic]) for topic in sorted(found)}

    def rows_of(self, topics: Iterable[str]) -> list[Any] | None:
        """Return all that is kept of these topics, to compare with what it is later: equal as long as no
        offset of them has changed. None if it cannot be compared so."""
        if self.loose:
            return None
        found: list[Any] = []
        for topic in topics:
            if topic == self.topic:
                blocks, alone = self.blocks, self.alone
            else:
                blocks, alone = self.more.get(topic, ()), self.more_alone.get(topic, alone_offsets.NONE)
            if type(alone) is bytearray:
                return None  # it is written in place
            found.append(blocks)
            found.append(alone)
        return found

    def packed(self, topic: str, partitions: Sequence[int], topic_id: bytes | None) -> bytes | None:
        """Return the rows of these partitions, in their order, if all are kept in rows; with a `topic_id`, if
        all were committed under it. Else None."""
        blocks, alone = self.blocks_of(topic), self.alone_of(topic)
        if not (blocks or alone) or not partitions:
            return None
        if topic_id is not None and any(block[3] != topic_id for block in blocks):
            return None
        if topic_id is not None and alone and alone_offsets.topic_id_of(alone) != topic_id:
            return None
        for block in blocks:
            if layout_of(block[0]).partitions == partitions:
                return block[0]
        found: dict[int, bytes] = dict(alone_offsets.travelling(alone))
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
        topic, partition = position
        is_main = topic == self.topic
        alone = self.alone if is_main else self.more_alone.get(topic)
        exchanged = alone_offsets.exchange(alone, partition, value) if alone else None
        if exchanged is not None:
            if is_main:
                self.alone = exchanged[0]
            else:
                self.more_alone[topic] = exchanged[0]
            return exchanged[1]
        before = self.single(position)
        replaced = self._taken_out(position) if before is None else before
        self._set_single(position, value)
        return replaced

    def remove(self, position: Position) -> OffsetCommitValue | ReplacedOffsets | None:
        """Remove an offset. Return what was there."""
        before = self.single(position)
        if before is None:
            return self._taken_out(position)
        self._set_single(position, None)
        return before

    def put_back(self, topic: str, replaced: ReplacedOffsets) -> ReplacedOffsets:
        """Undo a change of a topic. Return what undoes that."""
        undone = ReplacedOffsets(
            self.blocks_of(topic),
            tuple((position, self.single(position)) for position, _ in replaced.loose),
        )
        self._set(topic, replaced.blocks)
        for position, value in replaced.loose:
            self._set_single(position, value)
        return undone

    def _put_new(
        self, topic: str, block: OffsetRows, replaced: dict[Position, OffsetCommitValue | None]
    ) -> None:
        """Write a block of partitions that were not committed together before. `replaced` takes what becomes
        of those that are kept one by one."""
        partitions = layout_of(block[0]).partitions
        before = self.blocks_of(topic)
        loose = self._singles_among(topic, partitions)
        if len(before) >= BLOCKS_MAX and len(loose) == len(partitions):
            self._keep_one_by_one(topic, block, replaced)
            return
        for position, value in loose.items():
            replaced.setdefault(position, value)
            self._set_single(position, None)
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
            replaced.setdefault(position, self.single(position))
            self._set_single(position, value)

    def _singles_among(self, topic: str, partitions: Sequence[int]) -> dict[Position, OffsetCommitValue]:
        """Return those of a topic's partitions that are kept one by one, with their offsets."""
        found = self._alone_among(topic, partitions)
        for position in zip(repeat(topic), partitions) if self.loose else ():
            value = self.loose.get(position)
            if value is not None:
                found[position] = value
        return found

    def _alone_among(self, topic: str, partitions: Collection[int]) -> dict[Position, OffsetCommitValue]:
        """Return those of a topic's partitions that have a row for themselves, with their offsets."""
        alone = self.alone_of(topic)
        if not alone:
            return {}
        if alone_offsets.count(alone) <= ROWS_A_SEARCH * len(partitions):
            wanted = set(partitions)
            found = [row for row in alone_offsets.rows_of(alone) if row[0] in wanted]
            return {(topic, row[0]): value_of(alone, row) for row in found}
        rows = ((partition, row_of(alone, partition)) for partition in partitions)
        return {(topic, partition): value_of(alone, row[1]) for partition, row in rows if row is not None}

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
        if self._is_main(topic, bool(blocks)):
            self.blocks = blocks
            self._note_main(topic)
        elif blocks:
            if self.more is _NO_ROWS:
                self.more = {}
            self.more[intern(topic)] = blocks
        else:
            self.more.pop(topic, None)

    def _set_alone(self, topic: str, alone: Alone) -> None:
        if self._is_main(topic, bool(alone)):
            self.alone = alone
            self._note_main(topic)
        elif alone:
            if self.more_alone is _NO_ALONE:
                self.more_alone = {}
            self.more_alone[intern(topic)] = alone
        else:
            self.more_alone.pop(topic, None)

    def _is_main(self, topic: str, is_some: bool) -> bool:
        """Whether the topic is `topic`, or is to be because it is given something."""
        if topic == self.topic:
            return True
        return self.topic is None and is_some and topic not in self.more and topic not in self.more_alone

    def _note_main(self, topic: str) -> None:
        if not self.blocks and not self.alone:
            self.topic = None
        elif self.topic is None:
            self.topic = intern(topic)

    def _set_single(self, position: Position, value: OffsetCommitValue | None) -> None:
        """Keep an offset for itself, or no longer if it is None. No block has it."""
        topic, partition = position
        alone = self.alone_of(topic)
        found = row_of(alone, partition)
        at = None if found is None else found[0]
        if value is not None and alone_offsets.takes(alone, value):
            self._set_alone(topic, alone_offsets.put(alone, at, partition, value))
            self.loose.pop(position, None)
            return
        if at is not None:
            self._set_alone(topic, alone_offsets.without(alone, at))
        if value is None:
            self.loose.pop(position, None)
            return
        if self.loose is _NO_LOOSE:
            self.loose = {}
        # Each record that is read has a topic's name of its own.
        self.loose[intern(topic), partition] = value


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
