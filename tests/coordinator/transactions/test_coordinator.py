"""The transaction coordinator in simulated time: epochs, fencing, states and time-outs."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.transactions.metadata import EPOCH_MAX, FIRST_GENERATION, SECOND_GENERATION
from actors.coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.ground.topic_names import INTERNAL_TOPICS
from tests.coordinator.driver import topic_id
from tests.coordinator.transactions.driver import ID, TransactionDriver

CONCURRENT = ErrorCode.concurrent_transactions
FENCED = ErrorCode.producer_fenced
MAPPING = ErrorCode.invalid_producer_id_mapping


@pytest.fixture
def tier() -> TransactionDriver:
    return TransactionDriver(t=2)


def test_each_initialization_gives_the_next_epoch_of_one_producer_id(tier: TransactionDriver) -> None:
    first, second = tier.init(), tier.init()
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    assert first.producer_id == second.producer_id
    assert tier.init("another").producer_id != first.producer_id


def test_producer_ids_of_a_partition_are_far_from_the_controllers_and_survive_a_failover(
    tier: TransactionDriver,
) -> None:
    first = tier.init("a").producer_id
    tier.commit()
    tier.fail_over()
    second = tier.init("b").producer_id
    assert (first, second) == (1 << 40, 1 << 40 | 1)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "recovers", "error"),
    [
        ("", 60_000, (-1, -1), ErrorCode.invalid_request),
        (ID, 60_000, (7, -1), ErrorCode.invalid_request),
        (ID, 60_000, (-1, 7), ErrorCode.invalid_request),
        (ID, 0, (-1, -1), ErrorCode.invalid_transaction_timeout),
        (ID, 900_001, (-1, -1), ErrorCode.invalid_transaction_timeout),
    ],
)
def test_an_initialization_that_makes_no_sense_is_refused(
    tier: TransactionDriver, transactional_id: str, timeout_ms: int, recovers: tuple[int, int], error: int
) -> None:
    answer = tier.init(transactional_id, timeout_ms=timeout_ms, recovers=recovers)
    assert answer == (error, -1, -1)
    assert not tier.records()


def test_a_committed_transaction_goes_through_kafkas_states(tier: TransactionDriver) -> None:
    producer = tier.producer()
    states = [tier.transaction().state]
    assert tier.add_partitions(producer, "t", 0, 1) == {0: 0, 1: 0}
    states.append(tier.transaction().state)
    assert tier.transaction().partitions == (("t", (0, 1)),)
    assert tier.end(producer) == 0
    states.append(tier.transaction().state)
    assert tier.deliver_markers() == [ID]
    states.append(tier.transaction().state)
    assert states == [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    assert tier.transaction().partitions == ()
    assert tier.add_partitions(producer, "t", 1) == {1: 0}
    tier.check_snapshot()


def test_partitions_that_are_there_already_cost_no_record(tier: TransactionDriver) -> None:
    producer = tier.producer()
    tier.add_partitions(producer, "t", 0, 1)
    tier.add_partitions(producer, "t", 1)
    assert not tier.last.records


def test_of_partitions_that_do_not_all_exist_none_is_added(tier: TransactionDriver) -> None:
    errors = tier.add_partitions(tier.producer(), "t", 0, 7)
    assert errors == {0: ErrorCode.operation_not_attempted, 7: ErrorCode.unknown_topic_or_partition}
    assert tier.transaction().state == EMPTY


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_internal_topics_are_added_by_brokers_and_not_by_clients(name: str) -> None:
    """W51: until version 3 it is a client that asks."""
    topics = tuple(
        TopicImage(topic_id(n), name, (0,) * 2) for n, name in enumerate(("t", *INTERNAL_TOPICS), 1)
    )
    tier = TransactionDriver(MetadataImage(version=1, topics=topics))
    producer = tier.producer()
    refused = ErrorCode.topic_authorization_failed
    assert tier.add_partitions(producer, name, 0, 9) == {0: refused, 9: refused}
    assert tier.transaction().state == EMPTY
    assert tier.add_partitions(producer, name, 0, version=4) == {0: 0}
    assert tier.transaction().partitions == ((name, (0,)),)


def test_the_generation_of_the_client_is_kept_with_its_transaction(tier: TransactionDriver) -> None:
    """W53: the last request that told it counts, and fencing ends a transaction as one of the second."""
    producer = tier.producer()
    tier.add_partitions(producer, version=3)
    assert tier.transaction().client_version == FIRST_GENERATION
    tier.add_partitions(producer, "t", 1, version=4)
    assert tier.transaction().client_version == SECOND_GENERATION
    tier.end(producer, version=4)
    assert tier.transaction().client_version == FIRST_GENERATION
    tier.deliver_markers()
    tier.add_partitions(producer)
    tier.init()
    assert tier.transaction().client_version == SECOND_GENERATION
    tier.check_snapshot()


def test_an_unknown_or_replaced_producer_is_told_so(tier: TransactionDriver) -> None:
    assert tier.add_partitions((5, 0)) == {0: MAPPING}
    producer_id, epoch = tier.producer()
    assert tier.add_offsets((producer_id + 1, epoch)) == MAPPING
    assert tier.add_offsets((producer_id, epoch + 1)) == FENCED
    assert tier.add_offsets((producer_id, epoch + 1), version=1) == ErrorCode.invalid_producer_epoch
    assert tier.add_partitions((producer_id, epoch + 1), version=1) == {0: ErrorCode.invalid_producer_epoch}
    assert tier.end((producer_id, epoch + 1)) == FENCED
    assert tier.end((producer_id, epoch + 1), version=1) == ErrorCode.invalid_producer_epoch
    assert tier.end((producer_id + 1, epoch)) == MAPPING


def test_ending_is_answered_by_state(tier: TransactionDriver) -> None:
    producer = tier.producer()
    assert tier.end(producer) == ErrorCode.invalid_txn_state
    tier.add_partitions(producer)
    assert tier.end(producer) == 0
    assert tier.end(producer) == CONCURRENT
    assert tier.end(producer, committed=False) == ErrorCode.invalid_txn_state
    assert tier.add_partitions(producer) == {0: CONCURRENT}
    tier.deliver_markers()
    assert tier.end(producer) == 0, "a retry whose answer was lost"
    assert tier.end(producer, committed=False) == ErrorCode.invalid_txn_state


def test_a_new_producer_aborts_the_open_transaction_of_the_old_one(tier: TransactionDriver) -> None:
    zombie = tier.producer()
    tier.add_partitions(zombie)
    assert tier.init().error_code == CONCURRENT
    assert tier.transaction().state == PREPARE_ABORT
    assert tier.init().error_code == CONCURRENT
    assert tier.end(zombie) == FENCED
    tier.deliver_markers()
    assert tier.transaction().state == COMPLETE_ABORT
    answer = tier.init()
    assert (answer.producer_id, answer.producer_epoch) == (zombie[0], zombie[1] + 2)


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    tier: TransactionDriver,
) -> None:
    answer = tier.init(timeout_ms=10_000)
    producer = (answer.producer_id, answer.producer_epoch)
    tier.add_partitions(producer)
    tier.advance(9_000)
    assert tier.add_partitions(producer, "t", 1) == {1: 0}, "which gives it no more time"
    tier.advance(1_100)
    assert tier.transaction().state == PREPARE_ABORT
    assert tier.end(producer) == FENCED
    assert tier.deliver_markers() == [ID]
    assert tier.transaction().state == COMPLETE_ABORT


def test_the_time_out_counts_on_after_a_failover(tier: TransactionDriver) -> None:
    answer = tier.init(timeout_ms=10_000)
    tier.add_partitions((answer.producer_id, answer.producer_epoch))
    tier.advance(9_000)
    tier.commit()
    tier.fail_over()
    tier.advance(1_100)
    assert tier.transaction().state == PREPARE_ABORT


def test_a_decision_outlives_the_coordinator_and_its_markers_are_written_by_the_next(
    tier: TransactionDriver,
) -> None:
    producer = tier.producer()
    tier.add_partitions(producer)
    assert tier.end(producer) == 0
    tier.commit()
    tier.events.clear()
    tier.fail_over()
    assert tier.deliver_markers() == [ID]
    assert tier.transaction().state == COMPLETE_COMMIT


def test_a_transactional_id_that_nobody_uses_is_forgotten() -> None:
    tier = TransactionDriver(settings=GroupSettings(transactional_id_expiration_ms=100_000), t=1)
    producer = tier.producer()
    tier.advance(99_000)
    assert tier.add_partitions(producer) == {0: 0}
    tier.advance(50_000)
    assert tier.end(producer) == 0
    tier.deliver_markers()
    tier.advance(101_000)
    assert tier.add_partitions(producer) == {0: MAPPING}


def test_a_recovering_producer_is_told_its_new_epoch_however_often_it_asks(tier: TransactionDriver) -> None:
    """This is KIP-360."""
    producer = tier.producer()
    bumped = tier.init(recovers=producer)
    assert bumped.producer_epoch == producer[1] + 1
    assert tier.init(recovers=producer) == bumped, "a retry"
    assert tier.init(recovers=(producer[0], 9)).error_code == FENCED
    assert tier.init(recovers=(producer[0] + 1, 0)).error_code == FENCED
    assert tier.init().producer_epoch == producer[1] + 2


def test_a_producer_recovers_from_its_open_transaction_with_the_epoch_of_the_abort(
    tier: TransactionDriver,
) -> None:
    """O18: it was fenced, though nobody else had its id. A new producer's turn ends that."""
    producer = tier.producer()
    tier.add_partitions(producer, "t", 0)
    assert tier.init(recovers=producer).error_code == CONCURRENT
    tier.deliver_markers()
    recovered = tier.init(recovers=producer)
    assert recovered == (0, producer[0], producer[1] + 1)
    assert tier.init(recovers=producer) == recovered, "a retry"
    assert tier.add_partitions(producer) == {0: FENCED}
    assert tier.init().producer_epoch == recovered.producer_epoch + 1
    assert tier.init(recovers=producer).error_code == FENCED


def test_a_producer_of_the_last_epoch_does_not_recover_from_its_open_transaction(
    tier: TransactionDriver,
) -> None:
    """The epoch that the abort takes is the one that no producer is given."""
    while tier.init().producer_epoch < EPOCH_MAX - 1:
        pass
    producer = (tier.transaction().producer_id, EPOCH_MAX - 1)
    tier.add_partitions(producer, "t", 0)
    assert tier.init(recovers=producer).error_code == CONCURRENT
    tier.deliver_markers()
    assert tier.init(recovers=producer).error_code == FENCED
    assert tier.init().producer_epoch == 0


def test_a_producer_that_has_used_up_its_epochs_gets_a_new_id(tier: TransactionDriver) -> None:
    first = tier.init()
    while tier.transaction().producer_epoch < EPOCH_MAX - 1:
        last = tier.init()
    assert last.producer_id == first.producer_id
    rotated = tier.init(recovers=(last.producer_id, last.producer_epoch))
    assert (rotated.error_code, rotated.producer_epoch) == (0, 0)
    assert rotated.producer_id != first.producer_id
    assert tier.init(recovers=(last.producer_id, last.producer_epoch)) == rotated, "a retry"
