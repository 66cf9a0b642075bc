"""Commits of several partitions of a topic travel as one record, and are kept as one record for each."""

from __future__ import annotations

import msgpack
import pytest

from actors.ground.contract import Record
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    OffsetBatchKey,
    OffsetBatchValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRowsKey,
)
from actors.protocol import api_keys
from actors.protocol.messages import CommittedPartition, OffsetCommitRequest
from tests.coordinator.batches import one_by_one
from tests.coordinator.driver import START_MS, Driver, topic_id


@pytest.fixture
def tier() -> Driver:
    return Driver(t=4, u=4)


def commit(tier: Driver, *topics: tuple[str, tuple[CommittedPartition, ...]]) -> None:
    body = OffsetCommitRequest("g", -1, "", None, -1, topics)
    tier.ask(api_keys.OFFSET_COMMIT, body, 9)


def test_partitions_without_metadata_are_one_record(tier: Driver) -> None:
    """O17: each partition is kept, and goes into a snapshot, as if it had been committed alone."""
    commit(tier, ("t", (CommittedPartition(0, 7, 3), CommittedPartition(2, 9, -1, ""))))
    key = OffsetBatchKey(OFFSET_BATCH, "g", "t")
    value = OffsetBatchValue((0, 2), (7, 9), (3, -1), START_MS, NO_EXPIRY, topic_id(1))
    assert tier.last.records == [Record(key, value)]
    kept = {
        OffsetCommitKey(OFFSET_COMMIT, "g", "t", 0): OffsetCommitValue(
            7, 3, "", START_MS, NO_EXPIRY, topic_id(1)
        ),
        OffsetCommitKey(OFFSET_COMMIT, "g", "t", 2): OffsetCommitValue(
            9, -1, "", START_MS, NO_EXPIRY, topic_id(1)
        ),
    }
    assert tier.records() == kept == dict(one_by_one(tier.last.records))
    tier.check_snapshot()


def test_each_topic_has_its_own(tier: Driver) -> None:
    """A partition with metadata, or the only one of its topic, has a record of its own."""
    two = (CommittedPartition(0, 1), CommittedPartition(1, 2))
    noted = (CommittedPartition(0, 1, -1, "note"), CommittedPartition(1, 2))
    commit(tier, ("t", two), ("u", noted), ("t", (CommittedPartition(3, 4),)))
    assert [key[0] for key, _ in tier.last.records] == [OFFSET_BATCH, *[OFFSET_COMMIT] * 3]
    assert tier.offsets("g") == {("t", 0): 1, ("t", 1): 2, ("t", 3): 4, ("u", 0): 1, ("u", 1): 2}


def test_of_a_partition_that_is_named_twice_the_last_counts(tier: Driver) -> None:
    commit(tier, ("t", (CommittedPartition(1, 5), CommittedPartition(0, 6), CommittedPartition(1, 7))))
    assert tier.offsets("g") == {("t", 0): 6, ("t", 1): 7}
    tier.fall()
    assert tier.records() == {}


def test_a_leader_that_falls_takes_back_what_was_not_committed(tier: Driver) -> None:
    """R3: the offsets that the batch replaced are there again, and new ones are gone."""
    commit(tier, ("t", (CommittedPartition(0, 1), CommittedPartition(1, 1))))
    tier.commit()
    commit(tier, ("t", (CommittedPartition(1, 2), CommittedPartition(2, 2))))
    commit(tier, ("t", (CommittedPartition(2, 3), CommittedPartition(3, 3))))
    tier.fail_over()
    assert tier.offsets("g") == {("t", 0): 1, ("t", 1): 1}


def test_a_batch_is_the_same_after_its_way_through_the_log(tier: Driver) -> None:
    commit(tier, ("t", tuple(CommittedPartition(n, 2**40 + n, n) for n in range(4))))
    assert dict(one_by_one(tier.restored(tier.last.records).records())) == tier.records()
    [(key, value)] = tier.last.records
    assert msgpack.unpackb(msgpack.packb((key, value)), use_list=False) == (key, value)


def test_what_a_batch_replaced_is_told_by_the_keys_of_a_snapshot(tier: Driver) -> None:
    """A snapshot that is being made needs what was there as it was kept."""
    tier.commit_offsets("g", offsets={1: 5})
    tier.commit()
    [(one, before)] = tier.records().items()
    commit(tier, ("t", (CommittedPartition(0, 6), CommittedPartition(1, 7))))
    [(key, value)] = tier.last.records
    tier.fall()
    replaced = tier.shard.apply(key, value)
    rows = OffsetRowsKey(OFFSET_ROWS, "g", "t")
    assert dict(tier.shard.singles(key, replaced)) == {rows: None, one: before}
