"""Offsets are kept in blocks of rows or one by one: nobody can tell which, and what is undone never was.

Random records of every form go into a shard and into a plain dict, which is what a group's offsets mean.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from actors.coordinator.ground import alone_offsets, group_offsets
from actors.coordinator.ground.group_offsets import GroupOffsets
from actors.coordinator.offsets.reading import Reading
from actors.ground.contract import Key, Record, Value
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    RECORD_TYPES,
    OffsetBatchKey,
    OffsetBatchValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRowsKey,
    OffsetRowsValue,
)
from actors.ground.snapshot_build import SnapshotBuild
from actors.protocol.offset_rows import packed
from tests.coordinator.batches import one_by_one
from tests.coordinator.shards import new_shard

GROUPS, TOPICS, PARTITIONS = ("g", "h"), ("t", "u"), 40
SEEDS, STEPS = 8, 150
Live = dict[Key, Value]
"""OffsetCommitKey -> OffsetCommitValue of every offset that is there."""


class World:
    """A shard, and what it should hold."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.shard = new_shard()
        self.live: Live = {}
        self.undo: list[tuple[Key, Value | None, Live]] = []
        """What was written last and may be undone: (key, what `apply` returned, what was there)."""
        self.builds: list[tuple[SnapshotBuild, Live, bool]] = []
        """Snapshots under way, what each has to hold, and whether it is without packed records."""
        self.readings: list[tuple[str, Reading, Live]] = []

    def step(self) -> None:
        roll = self.chance.random()
        if roll < 0.7:
            for record in self.some_records():
                self.write(record)
        elif roll < 0.85:
            for _ in range(min(len(self.undo), self.chance.randrange(6))):
                key, replaced, self.live = self.undo.pop()
                self.apply(key, replaced)
        elif roll < 0.9:
            self.undo.clear()  # all of it is committed
        elif roll < 0.95:
            self.begin_build()
        else:
            self.begin_reading()
        for build, live, is_single in list(self.builds):
            data = build.step(self.chance.randrange(1, 8))
            if data is not None:
                self.builds.remove((build, live, is_single))
                self.check_snapshot(data, live, is_single)
        if self.readings and self.chance.random() < 0.1:
            self.end_reading()
        self.check()

    # Writing.

    def write(self, record: Record) -> None:
        before = dict(self.live)
        key, value = record
        for single, committed in one_by_one([record]):
            if committed is None:
                self.live.pop(single, None)
            else:
                self.live[single] = committed
        self.undo.append((key, self.apply(key, value), before))

    def apply(self, key: Key, value: Value | None) -> Value | None:
        """Apply as a replica does, which tells the snapshots under way what is replaced."""
        replaced = self.shard.apply(key, value)
        for build, _, _ in self.builds:
            for single in self.shard.singles(key, replaced):
                build.note(*single)
        return replaced

    def some_records(self) -> Iterator[Record]:
        chance = self.chance
        group_id, topic = chance.choice(GROUPS), chance.choice(TOPICS)
        times = chance.randrange(1, 9), chance.choice((NO_EXPIRY, 77)), bytes([chance.randrange(2)] * 16)
        partitions = self.some_partitions()
        rows = [(p, chance.randrange(-1, 2**40), chance.randrange(-1, 9)) for p in partitions]
        match chance.randrange(8):
            case 0 | 1 | 2 | 3:
                value: Value = OffsetRowsValue(((packed(rows), *times),))
                yield Record(OffsetRowsKey(OFFSET_ROWS, group_id, topic), value)
            case 4:
                rows += chance.sample(rows, min(len(rows), chance.randrange(2)))  # one may be named twice
                columns = zip(*rows, strict=True)
                yield Record(
                    OffsetBatchKey(OFFSET_BATCH, group_id, topic), OffsetBatchValue(*columns, *times)
                )
            case 5 | 6:
                for partition, offset, leader_epoch in rows[:3]:
                    value = OffsetCommitValue(offset, leader_epoch, chance.choice(("", "né")), *times)
                    yield Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), value)
            case _:
                for partition in partitions[: chance.choice((3, PARTITIONS))]:
                    yield Record(OffsetCommitKey(OFFSET_COMMIT, group_id, topic, partition), None)

    def some_partitions(self) -> list[int]:
        """Partitions as assignors give them, or as clients commit some of them."""
        chance = self.chance
        match chance.randrange(4):
            case 0:
                first = chance.randrange(0, PARTITIONS, 5)
                return list(range(first, first + 5))
            case 1:
                return list(range(chance.randrange(4), PARTITIONS, 4))
            case 2:
                return list(range(PARTITIONS))
            case _:
                return chance.sample(range(PARTITIONS), chance.randrange(1, 12))

    # Snapshots, and large fetches.

    def begin_build(self) -> None:
        before: Live = {}
        committed = self.undo[0][2] if self.undo else self.live
        for key, replaced, _ in reversed(self.undo):
            before.update(self.shard.singles(key, replaced))  # type: ignore[arg-type]
        is_single = self.chance.random() < 0.5
        spread = self.shard.one_by_one if is_single else None
        build = SnapshotBuild((3, 0), self.shard.records(), before, spread)  # type: ignore[arg-type]
        self.builds.append((build, dict(committed), is_single))

    def check_snapshot(self, data: bytes, live: Live, is_single: bool) -> None:
        unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
        unpacker.feed(data)
        unpacker.unpack()
        records = [
            (RECORD_TYPES[key[0]][0](*key), RECORD_TYPES[key[0]][1](*value)) for key, value in unpacker
        ]
        assert not is_single or {key[0] for key, _ in records} <= {OFFSET_COMMIT}
        shard = new_shard()
        self.chance.shuffle(records)
        for key, value in records:
            shard.apply(key, value)
        assert dict(one_by_one(shard.records())) == live

    def begin_reading(self) -> None:
        group_id = self.chance.choice(GROUPS)
        live = {key: value for key, value in self.live.items() if key[1] == group_id}
        self.readings.append((group_id, Reading(self.shard.state, group_id), live))

    def end_reading(self) -> None:
        _, reading, live = self.readings.pop(self.chance.randrange(len(self.readings)))
        found: list[Any] = []
        for some in reading.slices():
            found = [] if some is None else found + some
            if self.chance.random() < 0.3:
                for record in self.some_records():
                    self.write(record)
        self.shard.state.readings.remove(reading)
        assert sorted(found) == sorted(key[2:] for key in live)
        everywhere = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        assert reading.many(everywhere) == {key[2:]: value for key, value in live.items()}

    # Checks.

    def check(self) -> None:
        kept = dict(one_by_one(self.shard.records()))
        assert kept == self.live
        offsets = self.shard.state.offsets
        assert set(offsets) == {key[1] for key in self.live}, "an empty group is not kept"
        for group_id, of_group in offsets.items():
            live = {key[2:]: value for key, value in self.live.items() if key[1] == group_id}
            assert len(of_group) == len(live) == len(list(of_group))
            assert dict(of_group.items()) == live
            self.check_found(of_group, live)

    def check_found(self, of_group: GroupOffsets, live: dict[Any, Any]) -> None:
        topic = self.chance.choice(TOPICS)
        partitions = tuple(self.some_partitions())
        positions = [(topic, partition) for partition in partitions]
        found = {each: live[each] for each in positions if each in live}
        assert of_group.many(positions) == found
        assert [of_group.get(each) for each in positions] == [live.get(each) for each in positions]
        rows = of_group.packed(topic, partitions, None)
        if rows is not None:
            committed = [(each[1], *found[each][:2]) for each in positions]
            assert rows == packed(committed)
        everything = {name: [] for name, _ in sorted(live)}  # type: ignore[var-annotated]
        for name, partition in sorted(live):
            everything[name].append(partition)
        assert of_group.partitions() == everything


@pytest.mark.parametrize("blocks_max", [2, 32])
def test_offsets_are_the_same_however_they_are_kept(blocks_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "BLOCKS_MAX", blocks_max)
    monkeypatch.setattr(group_offsets, "CUT_ROWS_MAX", blocks_max // 2)
    monkeypatch.setattr(alone_offsets, "IN_PLACE_FROM", blocks_max)
    monkeypatch.setattr(group_offsets, "ROWS_A_SEARCH", 34 - blocks_max)
    for seed in range(SEEDS):
        world = World(random.Random(seed))
        for number in range(STEPS):
            try:
                world.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from error


def test_a_block_of_the_same_partitions_takes_the_place_of_the_one_before() -> None:
    offsets = GroupOffsets()
    for number in range(3):
        rows = packed((partition, number, -1) for partition in range(100))
        offsets.put("t", ((rows, 1_000 + number, NO_EXPIRY, bytes(16)),))
    assert len(offsets.blocks_of("t")) == 1
    assert not list(offsets.singles())
    assert offsets["t", 99] == OffsetCommitValue(2, -1, "", 1_002, NO_EXPIRY, bytes(16))


def test_a_group_whose_offsets_go_one_by_one_keeps_no_copies_of_its_blocks() -> None:
    offsets = GroupOffsets()
    rows = packed((partition, 7, -1) for partition in range(2_000))
    offsets.put("t", ((rows, 1_000, NO_EXPIRY, bytes(16)),))
    replaced = [offsets.remove(position) for position in list(offsets)]
    assert not offsets
    assert sum(isinstance(each, group_offsets.ReplacedOffsets) for each in replaced) == 1


def test_where_very_many_members_commit_the_offsets_of_some_are_kept_one_by_one() -> None:
    offsets = GroupOffsets()
    members = 2 * group_offsets.BLOCKS_MAX
    for _ in range(2):
        for member in range(members):
            rows = packed((member + members * n, 7, -1) for n in range(4))
            offsets.put("t", ((rows, 1_000, NO_EXPIRY, bytes(16)),))
    assert len(offsets.blocks_of("t")) == group_offsets.BLOCKS_MAX
    assert len(offsets) == 4 * members == 2 * len(list(offsets.singles()))
