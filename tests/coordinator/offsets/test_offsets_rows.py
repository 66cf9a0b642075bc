"""Commits of several partitions are logged, from level 2 on, as the rows that came, and fetched as such."""

from __future__ import annotations

from typing import Any

import pytest

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.coordinator.kafka_records.codec import encode, kind_of
from actors.coordinator.kafka_records.committed import CommittedRecords
from actors.coordinator.offsets.written import ROWS_MAX
from actors.ground.contract import Record
from actors.ground.features import GROUPD_VERSION, ROWS_LEVEL, Features
from actors.ground.image import MetadataImage
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    OffsetRowsKey,
    OffsetRowsValue,
)
from actors.network.wire import request_frame
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from actors.protocol.offset_rows import CommittedRows, FetchedRows, FineRows, packed
from tests.coordinator.batches import one_by_one
from tests.coordinator.driver import START_MS, Driver, image_of, topic_id

PARTITIONS = 5_000


def image_at(level: int, version: int = 1) -> MetadataImage:
    image = image_of(version, t=PARTITIONS, u=4)
    image.features = Features(1, ((GROUPD_VERSION, level),))
    return image


@pytest.fixture
def tier() -> Driver:
    return Driver(image_at(ROWS_LEVEL))


def commit(tier: Driver, rows: Any, *, retention_ms: int = -1, topic: str = "t") -> list[tuple[int, int]]:
    """Commit rows of a topic. Returns the answer's partitions and errors."""
    body = OffsetCommitRequest("g", -1, "", None, retention_ms, ((topic, rows),))
    [(_, errors)] = tier.ask(api_keys.OFFSET_COMMIT, body, 9).topics
    return [(partition, int(error)) for partition, error in errors]


def fetch(tier: Driver, *partitions: int) -> Any:
    fetched = tier.fetch_group(OffsetFetchGroup("g", (("t", partitions),)))
    return fetched.topics[0][1]


def test_the_rows_that_came_are_logged_and_kept(tier: Driver) -> None:
    """O17: each partition is kept as if it had been committed alone."""
    rows = packed([(2, 9, -1), (0, 7, 3)])
    assert commit(tier, CommittedRows(rows)) == [(2, 0), (0, 0)]
    block = (rows, START_MS, NO_EXPIRY, topic_id(1))
    assert tier.last.records == [Record(OffsetRowsKey(OFFSET_ROWS, "g", "t"), OffsetRowsValue((block,)))]
    assert dict(one_by_one(tier.last.records)) == tier.records()
    assert tier.offsets("g") == {("t", 0): 7, ("t", 2): 9}
    tier.check_snapshot()


def test_rows_that_somebody_made_tuples_of_are_logged_in_the_same_way(tier: Driver) -> None:
    commit(tier, (CommittedPartition(2, 9, -1, ""), CommittedPartition(0, 7, 3)))
    records = tier.last.records
    commit(tier, CommittedRows(packed([(2, 9, -1), (0, 7, 3)])))
    assert tier.last.records == records


def test_a_tier_at_level_1_writes_what_its_other_replicas_can_read() -> None:
    tier = Driver(image_at(1))
    rows = CommittedRows(packed([(0, 7, 3), (2, 9, -1)]))
    assert commit(tier, rows) == [(0, 0), (2, 0)]
    assert [key[0] for key, _ in tier.last.records] == [OFFSET_BATCH]
    before = tier.records()
    tier.commit()
    tier.set_image(image_at(ROWS_LEVEL, 2))
    assert commit(tier, rows) == [(0, 0), (2, 0)]
    assert [key[0] for key, _ in tier.last.records] == [OFFSET_ROWS]
    assert tier.records() == before


def test_of_a_partition_that_is_named_twice_the_last_counts(tier: Driver) -> None:
    assert commit(tier, CommittedRows(packed([(1, 5, -1), (0, 6, -1), (1, 7, -1)]))) == [
        (1, 0),
        (0, 0),
        (1, 0),
    ]
    assert tier.offsets("g") == {("t", 0): 6, ("t", 1): 7}


@pytest.mark.parametrize("wrong", [-1, 4, 2**31 - 1])
def test_of_rows_in_which_a_partition_does_not_exist_the_others_are_committed(
    tier: Driver, wrong: int
) -> None:
    """W12."""
    errors = commit(tier, CommittedRows(packed([(1, 5, -1), (wrong, 6, -1), (3, 7, -1)])), topic="u")
    assert sorted(errors) == sorted([(wrong, 3), (1, 0), (3, 0)])
    assert tier.offsets("g") == {("u", 1): 5, ("u", 3): 7}


def test_many_partitions_are_several_records(tier: Driver) -> None:
    errors = commit(tier, CommittedRows(packed((n, n, -1) for n in range(2 * ROWS_MAX + 1))))
    assert errors == [(n, 0) for n in range(2 * ROWS_MAX + 1)]
    assert [len(value[0][0][0]) for _, value in tier.last.records if value] == [16 * ROWS_MAX] * 2 + [16]
    assert tier.offsets("g") == {("t", n): n for n in range(2 * ROWS_MAX + 1)}
    tier.fall()
    assert tier.records() == {}


def test_a_retention_of_the_commits_own_holds_for_all_of_its_rows(tier: Driver) -> None:
    """O5."""
    body = OffsetCommitRequest(
        "g", -1, "", None, 60_000, (("t", CommittedRows(packed([(0, 1, 1)] * 1 + [(1, 2, 2)]))),)
    )
    tier.ask(api_keys.OFFSET_COMMIT, body, 2)
    assert {value.expire_timestamp_ms for value in tier.records().values()} == {START_MS + 60_000}  # type: ignore[attr-defined]


def test_a_leader_that_falls_takes_back_what_was_not_committed(tier: Driver) -> None:
    """R3: however the offsets were kept that the rows replaced."""
    commit(tier, (CommittedPartition(0, 1, -1, "note"), CommittedPartition(1, 1)))
    commit(tier, CommittedRows(packed([(2, 1, -1), (3, 1, -1)])))
    tier.commit()
    before = tier.records()
    commit(tier, CommittedRows(packed([(2, 2, -1), (3, 2, -1)])))
    commit(tier, CommittedRows(packed([(0, 2, -1), (2, 3, -1)])))
    commit(tier, (CommittedPartition(3, 4, -1, "other"),))
    tier.delete_offsets("g", "t", 2)
    tier.fail_over()
    assert tier.records() == before


def test_a_fetch_answers_with_the_rows_if_it_asks_for_nothing_else(tier: Driver) -> None:
    commit(tier, CommittedRows(packed([(0, 7, 3), (2, 9, -1), (5, 1, 1)])))
    for asked in [(0, 2, 5), (5, 0), (2, 2)]:
        assert isinstance(fetch(tier, *asked), FetchedRows)
    assert fetch(tier, 5, 0) == ((5, 1, 1, "", 0), (0, 7, 3, "", 0))
    assert fetch(tier, 0, 1) == ((0, 7, 3, "", 0), (1, -1, -1, "", 0))
    commit(tier, (CommittedPartition(2, 9, -1, "note"),))
    assert fetch(tier, 0, 2) == ((0, 7, 3, "", 0), (2, 9, -1, "note", 0))


@pytest.mark.parametrize("version", range(1, 11))
def test_answers_of_rows_are_packed_as_those_of_tuples_are(tier: Driver, version: int) -> None:
    commit(tier, CommittedRows(packed([(n, 2**40 + n, n) for n in range(6)])))
    group = OffsetFetchGroup("g", (("t", tuple(range(6))),))
    if version >= 10:
        group = group._replace(topics=(("", tuple(range(6))),), topic_ids=(topic_id(1),))
    answer = tier.ask(api_keys.OFFSET_FETCH, OffsetFetchRequest((group,)), version)
    plain = OffsetFetchResponse(
        tuple(
            each._replace(topics=tuple((name, tuple(rows)) for name, rows in each.topics))
            for each in answer.groups
        )
    )
    assert isinstance(answer.groups[0].topics[0][1], FetchedRows)
    assert codec.encode(api_keys.OFFSET_FETCH, version, 7, answer) == codec.encode(
        api_keys.OFFSET_FETCH, version, 7, plain
    )


@pytest.mark.parametrize("version", range(2, 10))
def test_a_frame_is_committed_and_answered_as_tuples_are(tier: Driver, version: int) -> None:
    asked = [
        {
            "partition_index": number,
            "committed_offset": 2**33 + number,
            "committed_metadata": "",
            **({"committed_leader_epoch": number} if version >= 6 else {}),
        }
        for number in (3, 0, 7)
    ]
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": asked}],
    }
    frame = request_frame("offset_commit", version, 1, "test", fields)[4:]
    header, body_offset = parse_header(frame)
    body: Any = codec.decode(header, frame, body_offset)
    answer = tier.ask(api_keys.OFFSET_COMMIT, body, version)
    kept = tier.records()
    plain = body._replace(topics=tuple((name, tuple(map(tuple, rows))) for name, rows in body.topics))
    other = Driver(image_at(1))
    expected = other.ask(api_keys.OFFSET_COMMIT, plain, version)
    assert other.records() == kept
    assert isinstance(answer.topics[0][1], FineRows)
    assert codec.encode(api_keys.OFFSET_COMMIT, version, 7, answer) == codec.encode(
        api_keys.OFFSET_COMMIT, version, 7, expected
    )


def test_readers_of_the_offsets_topic_see_a_record_for_each_partition(tier: Driver) -> None:
    """W53."""
    commit(tier, CommittedRows(packed([(0, 7, 3), (2, 9, -1)])))
    told = CommittedRecords()
    rows = list(told.to_kafka(tier.last.records))
    singles = list(told.to_kafka(one_by_one(tier.last.records)))
    assert rows == singles
    assert [kind_of(encode(record)[0]) for record in rows] == [OFFSET_COMMIT] * 2
