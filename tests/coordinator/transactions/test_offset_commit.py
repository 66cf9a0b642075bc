"""Offsets in transactions, in simulated time with a host in between: rules O7, O8, O10, O13 and W8."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.transactions.coordinator import OFFSETS_TOPIC
from actors.protocol.messages import CommittedPartition
from tests.coordinator.driver import image_of, topic_id
from tests.coordinator.transactions.driver import TERM, TransactionDriver


@pytest.fixture
def tier() -> TransactionDriver:
    return TransactionDriver(t=2)


def open_transaction(tier: TransactionDriver) -> tuple[int, int]:
    producer = tier.producer()
    assert tier.add_offsets(producer) == 0
    return producer


def test_an_offset_is_seen_when_its_transaction_commits_and_not_before(tier: TransactionDriver) -> None:
    """This is rule O7."""
    producer = open_transaction(tier)
    assert tier.transaction().partitions == ((OFFSETS_TOPIC, (0,)),)
    assert tier.commit_in_transaction(producer, 10) == 0
    assert tier.offset() == (-1, 0)
    tier.end(producer)
    assert tier.offset() == (-1, 0)
    tier.deliver_markers()
    assert tier.offset() == (10, 0)
    tier.check_snapshot()


def test_an_offset_of_an_aborted_transaction_is_never_seen(tier: TransactionDriver) -> None:
    """This is rule O7."""
    tier.commit_offsets("g", offsets={0: 5})
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    tier.end(producer, committed=False)
    tier.deliver_markers()
    assert tier.offset() == (5, 0)


def test_the_last_offset_of_a_transaction_counts(tier: TransactionDriver) -> None:
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    tier.commit_in_transaction(producer, 12)
    tier.end(producer)
    tier.deliver_markers()
    assert tier.offset() == (12, 0)


def test_an_offset_committed_meanwhile_is_newer_than_the_transactions(tier: TransactionDriver) -> None:
    """O7: the transaction's offset counts only if it is newer."""
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    tier.advance(1)
    tier.commit_offsets("g", offsets={0: 3})
    tier.end(producer)
    tier.deliver_markers()
    assert tier.offset() == (3, 0)


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_of_two_transactions_the_one_that_wrote_last_wins(
    tier: TransactionDriver, first_ends_first: bool
) -> None:
    first, second = tier.producer("a"), tier.producer("b")
    for producer, transactional_id, offset in ((first, "a", 10), (second, "b", 20)):
        token = tier.send_commit(producer, offset, transactional_id=transactional_id)
        tier.verify(tier.unverified(), ErrorCode.none)
        assert token in tier.replies
    for producer in (first, second) if first_ends_first else (second, first):
        assert tier.mark(producer) == 0
    assert tier.offset() == (20, 0)
    assert not tier.shard.state.pending_offsets
    assert not tier.shard.state.open_producers


def test_what_is_pending_outlives_the_coordinator(tier: TransactionDriver) -> None:
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    tier.commit()
    tier.fail_over()
    assert tier.commit_in_transaction(producer, 11) == 0, "and needs not be verified again"
    tier.end(producer)
    tier.deliver_markers()
    assert tier.offset() == (11, 0)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.invalid_txn_state), (4, ErrorCode.transaction_abortable)]
)
def test_a_commit_without_a_transaction_is_refused(tier: TransactionDriver, version: int, error: int) -> None:
    """This is rule O7."""
    assert tier.commit_in_transaction(tier.producer(), version=version) == error
    assert not tier.shard.state.pending_offsets


def test_version_5_adds_the_groups_partition_itself(tier: TransactionDriver) -> None:
    """This is KIP-890."""
    producer = tier.producer()
    assert tier.commit_in_transaction(producer, version=5) == 0
    assert tier.transaction().partitions == ((OFFSETS_TOPIC, (0,)),)


def test_an_unknown_producer_and_an_old_epoch_are_told_apart(tier: TransactionDriver) -> None:
    """This is rule O7."""
    producer_id, epoch = open_transaction(tier)
    assert tier.commit_in_transaction((producer_id, epoch + 1)) == ErrorCode.invalid_producer_epoch
    assert tier.commit_in_transaction((producer_id + 1, epoch)) == ErrorCode.invalid_producer_id_mapping


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.coordinator_not_available), (2, ErrorCode.coordinator_load_in_progress)],
)
def test_a_coordinator_out_of_reach_is_retriable_in_every_version(
    tier: TransactionDriver, version: int, error: int
) -> None:
    """These are rules W8 and W3."""
    token = tier.send_commit(open_transaction(tier), version=version)
    tier.verify(tier.unverified(), ErrorCode.network_exception)
    [(_, [(_, code)])] = tier.replies[token].topics
    assert code == error


def test_a_marker_that_overtakes_a_waiting_commit_refuses_it(tier: TransactionDriver) -> None:
    """KIP-890: no marker would ever settle the offset."""
    producer = open_transaction(tier)
    token = tier.send_commit(producer)
    waiting = tier.unverified()
    assert tier.mark(producer, committed=False) == 0
    tier.verify(waiting, ErrorCode.none)
    [(_, [(_, code)])] = tier.replies[token].topics
    assert code == ErrorCode.invalid_txn_state
    assert not tier.shard.state.pending_offsets


def test_a_marker_of_the_transaction_before_leaves_a_waiting_commit_alone(tier: TransactionDriver) -> None:
    """O20: in the second generation it has the epoch of the commit, and the coordinator may say yes when all
    such markers are there."""
    producer_id, epoch = open_transaction(tier)
    token = tier.send_commit((producer_id, epoch), 10)
    waiting = tier.unverified()
    assert tier.mark((producer_id, epoch), transaction_version=2) == 0
    tier.verify(waiting, ErrorCode.none)
    [(_, [(_, code)])] = tier.replies[token].topics
    assert code == ErrorCode.none
    assert tier.offset(stable=True)[1] == ErrorCode.unstable_offset_commit


@pytest.mark.parametrize("committed", [True, False])
def test_a_late_marker_of_the_second_generation_ends_no_later_transaction(
    tier: TransactionDriver, committed: bool
) -> None:
    """O20: a marker that comes twice finds the offsets of the next transaction, which has its epoch."""
    producer_id, epoch = open_transaction(tier)
    tier.commit_in_transaction((producer_id, epoch), 10)
    late = tier.mark((producer_id, epoch), committed=committed, transaction_version=2)
    assert late == ErrorCode.invalid_producer_epoch
    assert tier.offset(stable=True)[1] == ErrorCode.unstable_offset_commit
    assert tier.mark((producer_id, epoch + 1), transaction_version=2) == 0
    assert tier.offset(stable=True) == (10, 0)


def test_late_markers_change_nothing(tier: TransactionDriver) -> None:
    """The marker comes from a coordinator that was replaced, or is for a producer that was."""
    tier.producer()
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    tier.end(producer)
    tier.deliver_markers()
    tier.add_offsets(producer)
    tier.commit_in_transaction(producer, 20)
    assert tier.mark(producer, term=TERM - 1) == ErrorCode.transaction_coordinator_fenced
    assert tier.mark((producer[0], producer[1] - 1)) == ErrorCode.invalid_producer_epoch
    assert tier.offset(stable=True) == (-1, ErrorCode.unstable_offset_commit)
    assert tier.offset() == (10, 0)


def test_a_fenced_producer_commits_nothing(tier: TransactionDriver) -> None:
    zombie = open_transaction(tier)
    tier.commit_in_transaction(zombie, 10)
    tier.init()
    tier.deliver_markers()
    assert tier.commit_in_transaction(zombie, 11) == ErrorCode.invalid_producer_epoch
    assert tier.offset() == (-1, 0)


def test_a_stable_fetch_waits_for_the_transaction(tier: TransactionDriver) -> None:
    """This is rule O10."""
    tier.commit_offsets("g", offsets={0: 5})
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    assert tier.offset(stable=True) == (-1, ErrorCode.unstable_offset_commit)
    assert tier.offset() == (5, 0)
    tier.end(producer)
    tier.deliver_markers()
    assert tier.offset(stable=True) == (10, 0)


def test_a_deleted_group_takes_its_pending_offsets_along(tier: TransactionDriver) -> None:
    """O8, O13: an open transaction does not stop the deletion, and its end brings no offset back."""
    tier.commit_offsets("g", offsets={0: 5})
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    assert tier.delete_groups("g") == {"g": 0}
    tier.end(producer)
    tier.deliver_markers()
    assert tier.offset() == (-1, 0)
    assert tier.delete_groups("g") == {"g": ErrorCode.group_id_not_found}


def test_a_deleted_topic_takes_its_pending_offsets_along(tier: TransactionDriver) -> None:
    """These are rules O8 and O16."""
    producer = open_transaction(tier)
    tier.commit_in_transaction(producer, 10)
    tier.set_image(image_of(2))
    tier.advance(60_000)
    assert not tier.shard.state.pending_offsets


def test_members_are_asked_who_they_are_only_if_they_say_so(tier: TransactionDriver) -> None:
    """This is rule O7."""
    [member] = tier.stable_group("g")
    producer = open_transaction(tier)
    generation, member_id = member.generation_id, member.member_id
    assert tier.commit_in_transaction(producer) == 0
    assert tier.commit_in_transaction(producer, generation_id=generation, member_id=member_id) == 0
    illegal = ErrorCode.illegal_generation
    assert tier.commit_in_transaction(producer, generation_id=9, member_id=member_id) == illegal
    unknown = ErrorCode.unknown_member_id
    assert tier.commit_in_transaction(producer, generation_id=generation, member_id="else") == unknown
    assert tier.commit_in_transaction(producer, generation_id=generation) == unknown
    assert tier.commit_in_transaction(producer, member_id=member_id) == illegal


def test_a_group_that_is_not_there_takes_offsets_without_a_generation(tier: TransactionDriver) -> None:
    producer = open_transaction(tier)
    illegal = ErrorCode.illegal_generation
    assert tier.commit_in_transaction(producer, generation_id=1, member_id="m") == illegal
    assert tier.commit_in_transaction(producer) == 0


def test_each_partition_has_its_own_error(tier: TransactionDriver) -> None:
    """These are rules W12, O4 and W2."""
    producer = open_transaction(tier)
    topics = (
        (
            "t",
            (CommittedPartition(0, 1, -1, "x" * 4_097), CommittedPartition(1, 2), CommittedPartition(2, 3)),
        ),
        ("missing", (CommittedPartition(0, 4),)),
    )
    token = tier.send_commit(producer, topics=topics)
    tier.verify_all()
    too_large, unknown = ErrorCode.offset_metadata_too_large, ErrorCode.unknown_topic_or_partition
    expected = (("t", ((0, too_large), (1, ErrorCode.none), (2, unknown))), ("missing", ((0, unknown),)))
    assert tier.replies[token].topics == expected
    token = tier.send_commit(producer, group_id="", topics=topics)
    invalid = ErrorCode.invalid_group_id
    expected = (("t", ((0, invalid), (1, invalid), (2, unknown))), ("missing", ((0, unknown),)))
    assert tier.replies[token].topics == expected


def by_id(*topics: tuple[bytes, tuple[CommittedPartition, ...]]) -> dict[str, Any]:
    """The fields of a TxnOffsetCommit of version 6 for these topics."""
    return {
        "version": 6,
        "topic_ids": tuple(topic_id for topic_id, _ in topics),
        "topics": tuple(("", partitions) for _, partitions in topics),
    }


T, NOBODYS = topic_id(1), topic_id(99)


def test_topics_may_be_named_by_id(tier: TransactionDriver) -> None:
    """O7, W12: an unknown id has an error of its own, and what is committed is the topic's by name."""
    producer = open_transaction(tier)
    asked = by_id(
        (NOBODYS, (CommittedPartition(0, 1),)),
        (T, (CommittedPartition(0, 10), CommittedPartition(7, 11))),
    )
    token = tier.send_commit(producer, **asked)
    tier.verify_all()
    answer = tier.replies[token]
    unknown = ErrorCode.unknown_topic_or_partition
    assert answer.topic_ids == (NOBODYS, T)
    assert answer.topics == (
        ("", ((0, ErrorCode.unknown_topic_id),)),
        ("", ((0, ErrorCode.none), (7, unknown))),
    )
    tier.end(producer)
    tier.deliver_markers()
    assert tier.offset() == (10, 0)


def test_a_refused_commit_by_id_tells_of_unknown_ids_all_the_same(tier: TransactionDriver) -> None:
    """This is rule W12: the broker sorts them out before the coordinator looks at the group."""
    producer = open_transaction(tier)
    asked = by_id((T, (CommittedPartition(0, 1),)), (NOBODYS, (CommittedPartition(0, 1),)))
    token = tier.send_commit(producer, group_id="", **asked)
    assert tier.replies[token].topics == (
        ("", ((0, ErrorCode.invalid_group_id),)),
        ("", ((0, ErrorCode.unknown_topic_id),)),
    )
    assert tier.replies[token].topic_ids == (T, NOBODYS)


def test_version_6_knows_that_a_group_is_not_there(tier: TransactionDriver) -> None:
    """O7: older versions are told ILLEGAL_GENERATION."""
    producer = open_transaction(tier)
    one = by_id((T, (CommittedPartition(0, 1),)))
    member = {"generation_id": 1, "member_id": "m"}
    assert tier.commit_in_transaction(producer, **one, **member) == ErrorCode.group_id_not_found
    assert tier.commit_in_transaction(producer, version=5, **member) == ErrorCode.illegal_generation
    assert tier.commit_in_transaction(producer, **one) == ErrorCode.none
