"""OffsetCommit and OffsetFetch of version 10 name topics by id (W12, W16, O9)."""

from __future__ import annotations

import pytest

from actors.ground.contract import Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import OffsetCommitKey, OffsetCommitValue
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    FetchedGroup,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
)
from tests.coordinator.driver import Driver, topic_id

T, U, UNKNOWN, ZERO = topic_id(1), topic_id(2), topic_id(99), bytes(16)


@pytest.fixture
def tier() -> Driver:
    return Driver(t=3, u=1)


def commit(
    tier: Driver, *topics: tuple[bytes, tuple[int, ...]], generation: int = -1
) -> dict[bytes, dict[int, int]]:
    """Commit offset 7 to each of the partitions. Returns the errors."""
    named = tuple(("", tuple(CommittedPartition(number, 7) for number in numbers)) for _, numbers in topics)
    ids = tuple(topic_id for topic_id, _ in topics)
    body = OffsetCommitRequest("g", generation, "", None, -1, named, ids)
    answer = tier.ask(api_keys.OFFSET_COMMIT, body, 10)
    assert set(answer.topic_ids) == set(ids)
    return {
        topic_id: {partition: int(error) for partition, error in errors}
        for topic_id, (_, errors) in zip(answer.topic_ids, answer.topics, strict=True)
    }


def fetch(tier: Driver, *topics: tuple[bytes, tuple[int, ...]]) -> FetchedGroup:
    named = tuple(("", partitions) for _, partitions in topics)
    ids = tuple(topic_id for topic_id, _ in topics)
    return tier.fetch_group(OffsetFetchGroup("g", named, topic_ids=ids), version=10)


def test_what_is_committed_by_id_is_fetched_by_id_and_by_name(tier: Driver) -> None:
    assert commit(tier, (T, (0, 2)), (U, (0,))) == {T: {0: 0, 2: 0}, U: {0: 0}}
    assert {key[2:] for key in tier.records()} == {("t", 0), ("t", 2), ("u", 0)}
    assert fetch(tier, (U, (0,)), (T, (2, 1))) == FetchedGroup(
        "g",
        (("", (FetchedOffset(0, 7),)), ("", (FetchedOffset(2, 7), FetchedOffset(1)))),
        topic_ids=(U, T),
    )
    assert tier.offsets("g") == {("t", 0): 7, ("t", 2): 7, ("u", 0): 7}


def test_an_id_of_no_topic_is_error_100_and_the_rest_is_committed(tier: Driver) -> None:
    """O9: an unknown id, or zero, gets error 100. W12: an unknown partition of a known topic gets error 3."""
    errors = commit(tier, (UNKNOWN, (0, 1)), (T, (0, 3)), (ZERO, (0,)))
    assert errors == {UNKNOWN: {0: 100, 1: 100}, T: {0: 0, 3: 3}, ZERO: {0: 100}}
    assert tier.offsets("g") == {("t", 0): 7}
    fetched = fetch(tier, (UNKNOWN, (0,)), (T, (0,)), (ZERO, (5,)))
    assert [[int(row[-1]) for row in of_topic] for _, of_topic in fetched.topics] == [[100], [0], [100]]
    assert fetched.error_code == 0


def test_a_refused_group_does_not_hide_that_an_id_is_unknown(tier: Driver) -> None:
    """W12: ids are sorted out before the group is asked."""
    assert commit(tier, (UNKNOWN, (0,)), (T, (0,)), generation=3) == {UNKNOWN: {0: 100}, T: {0: 69}}
    assert commit(tier, (T, (0,)), generation=3) == {T: {0: 69}}
    assert commit(tier, (UNKNOWN, (0,)), generation=3) == {UNKNOWN: {0: 100}}
    assert not tier.last.records


def test_a_commit_of_nothing_is_answered_with_nothing(tier: Driver) -> None:
    assert commit(tier, generation=3) == {}


def test_an_offset_of_an_earlier_topic_of_that_name_is_not_this_topics(tier: Driver) -> None:
    """O9 (KAFKA-19154): a fetch by id tells -1, one by name tells the offset; an offset of unknown origin
    counts for both."""
    tier.shard.apply(OffsetCommitKey(1, "g", "t", 0), OffsetCommitValue(7, -1, "", tier.now_ms, -1, UNKNOWN))
    tier.shard.apply(OffsetCommitKey(1, "g", "t", 1), OffsetCommitValue(8, -1, "", tier.now_ms, -1, ZERO))
    [(_, fetched)] = fetch(tier, (T, (0, 1))).topics
    assert [(row[1], row[-1]) for row in fetched] == [(-1, 0), (8, 0)]
    assert tier.offsets("g") == {("t", 0): 7, ("t", 1): 8}


def test_all_topics_of_a_group_come_with_their_ids(tier: Driver) -> None:
    """O9: a topic that has no id any more cannot be named."""
    tier.commit_offsets("g", "t", {2: 5, 0: 4})
    tier.commit_offsets("g", "u", {0: 6})
    every = OffsetFetchGroup("g", None)
    both = (("", (FetchedOffset(0, 4), FetchedOffset(2, 5))), ("", (FetchedOffset(0, 6),)))
    assert tier.fetch_group(every, version=10) == FetchedGroup("g", both, topic_ids=(T, U))
    tier.set_image(MetadataImage(version=2, topics=(TopicImage(U, "u", (0,)),)))
    assert tier.fetch_group(every, version=10) == FetchedGroup("g", both[1:], topic_ids=(U,))


def test_a_request_that_is_refused_unseen_keeps_its_ids(tier: Driver) -> None:
    """A replica that does not lead answers with the names that the request had."""
    body = OffsetCommitRequest("g", -1, "", None, -1, (("", (CommittedPartition(0, 7),)),), (T,))
    refused = tier.shard.refusal(Request(1, api_keys.OFFSET_COMMIT, 10, "", "", body), 16)
    assert refused == OffsetCommitResponse((("", ((0, 16),)),), (T,))
