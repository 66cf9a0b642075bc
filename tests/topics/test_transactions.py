"""Transactions in one log: who may append, what committed readers see, which markers count (KIP-98)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.topics.batch import read_header, transactional_header
from actors.topics.errors import LogError
from actors.topics.partition_log import LogSettings, PartitionLog
from actors.topics.transactions import GUARDS_MAX, AbortedTransaction, Guard, Marker
from tests.topics.batches import batch, contents, with_field

ATTRIBUTES_AT = 21
TRANSACTIONAL = 0x10
CONTROL = 0x20


@pytest.fixture
def log() -> PartitionLog:
    settings = LogSettings(message_bytes_max=10**6, retention_bytes=10**9, retention_ms=None)
    return PartitionLog(settings, 0, lambda end: None)


def transactional(*values: bytes, producer_id: int = 7, epoch: int = 0, sequence: int = 0) -> bytes:
    made = batch(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return with_field(made, ATTRIBUTES_AT, ">h", TRANSACTIONAL)


def append(log: PartitionLog, *values: bytes, sequence: int = 0, producer_id: int = 7, epoch: int = 0) -> int:
    """Append a batch with the coordinator's consent. Returns its base offset."""
    made = transactional(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return log.append(made, 0, guard=verified(log, made)).base_offset


def verified(log: PartitionLog, made: bytes, *, adds_partition: bool = False) -> Guard | None:
    """Have a batch verified, as `adds_partition` says in the second generation or in the first."""
    return log.begin_verification(read_header(made), adds_partition=adds_partition)


def refused(log: PartitionLog, records: bytes, guard: Guard | None = None) -> ErrorCode:
    with pytest.raises(LogError) as refusal:
        log.append(records, 0, guard=guard)
    return refusal.value.error_code


def end(
    log: PartitionLog,
    *,
    committed: bool,
    producer_id: int = 7,
    epoch: int = 0,
    term: int = 1,
    transaction_version: int = 0,
) -> int:
    marker = Marker(producer_id, epoch, committed, term, transaction_version)
    return log.end_transaction(marker, 5_000).base_offset


def refused_end(log: PartitionLog, **marker: int) -> ErrorCode:
    with pytest.raises(LogError) as refusal:
        end(log, committed=True, **marker)
    return refusal.value.error_code


def test_committed_readers_stop_before_the_first_open_transaction(log: PartitionLog) -> None:
    log.append(batch(b"plain"), 0)
    append(log, b"a", b"b")
    log.append(batch(b"later"), 0)
    assert (log.stable_offset, log.end_offset) == (1, 4)
    records, next_offset = log.read_before(log.stable_offset, 0, 10**6)
    assert ([value for _, _, value in contents(records)], next_offset) == ([b"plain"], 1)
    assert log.read_before(log.stable_offset, 1, 10**6) == (b"", 1)
    end(log, committed=True)
    assert (log.stable_offset, log.end_offset) == (5, 5)
    assert log.transactions.aborted(0, 5) == ()


def test_aborted_transactions_are_named_to_whoever_reads_their_records(log: PartitionLog) -> None:
    append(log, b"a", producer_id=7)
    append(log, b"b", producer_id=8)
    end(log, committed=False, producer_id=7)
    assert log.stable_offset == 1
    end(log, committed=False, producer_id=8)
    seven, eight = AbortedTransaction(7, 0, 2), AbortedTransaction(8, 1, 3)
    assert log.transactions.aborted(0, 4) == (seven, eight)
    assert log.transactions.aborted(3, 4) == (eight,)
    assert log.transactions.aborted(0, 1) == (seven,)
    assert log.transactions.aborted(4, 4) == ()
    log.delete_records(3)
    assert log.transactions.aborted(0, 4) == (eight,)


def test_a_marker_is_a_control_batch_of_its_producer(log: PartitionLog) -> None:
    append(log, b"a")
    offset = end(log, committed=False, term=9)
    stored = log.read(offset, 10**6)
    header = read_header(stored)
    assert header.attributes == TRANSACTIONAL | CONTROL
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, -1)
    assert (header.base_offset, header.max_timestamp_ms, header.record_count) == (1, 5_000, 1)
    assert stored[-12:] == bytes.fromhex("00000000" + "0c" + "000000000009" + "00")
    assert [offset for offset, *_ in contents(stored)] == [1]


def test_nothing_is_appended_without_the_coordinators_word(log: PartitionLog) -> None:
    """This is KIP-890."""
    made = transactional(b"a")
    assert transactional_header(made) == read_header(made)
    assert transactional_header(batch(b"a")) is None
    assert refused(log, made) == ErrorCode.invalid_txn_state
    guard = verified(log, made)
    end(log, committed=False)
    assert refused(log, made, guard) == ErrorCode.invalid_txn_state
    assert log.stable_offset == log.end_offset
    append(log, b"a")
    assert log.append(transactional(b"b", sequence=1), 0).base_offset == 2, "the transaction is open"


def test_a_retry_in_a_transaction_is_told_its_first_offset(log: PartitionLog) -> None:
    """Kafka tells the batch's timestamp as the time of its append, and so do we; it was null before."""
    first = append(log, b"a")
    assert log.append(transactional(b"a"), 0) == (first, 1_000, 0)
    end(log, committed=True)
    assert log.append(transactional(b"a"), 0) == (first, 1_000, 0)


def test_a_marker_makes_a_producer_known_that_has_written_nothing(log: PartitionLog) -> None:
    """DescribeProducers tells it, with no sequence yet (W22); it was left out."""
    end(log, committed=False)
    assert [(each.producer_id, each.last_sequence) for each in log.active_producers()] == [(7, -1)]


def test_an_open_transaction_takes_no_plain_records_of_its_producer(log: PartitionLog) -> None:
    append(log, b"a")
    plain = batch(b"b", producer_id=7, epoch=0, sequence=1)
    assert refused(log, plain) == ErrorCode.invalid_txn_state


def test_sequences_go_on_over_transactions_of_one_epoch(log: PartitionLog) -> None:
    append(log, b"a", b"b")
    end(log, committed=True)
    append(log, b"c", sequence=2)
    end(log, committed=True, epoch=1)
    gap = transactional(b"d", epoch=1, sequence=3)
    assert refused(log, gap, verified(log, gap)) == ErrorCode.out_of_order_sequence_number
    append(log, b"d", epoch=1, sequence=0)


def test_a_late_marker_of_the_second_generation_ends_no_later_transaction(log: PartitionLog) -> None:
    """O20: it has the epoch of the next one. Where none is open it is taken, and changes nothing."""
    append(log, b"a")
    end(log, committed=True, epoch=1, transaction_version=2)
    end(log, committed=True, epoch=1, transaction_version=2)
    at = append(log, b"b", epoch=1)
    for epoch in (0, 1):
        assert refused_end(log, epoch=epoch, transaction_version=2) == ErrorCode.invalid_producer_epoch
    assert log.stable_offset == at
    end(log, committed=True, epoch=2, transaction_version=2)
    assert log.stable_offset == log.end_offset


@pytest.mark.parametrize(
    ("transaction_version", "epoch", "is_taken"),
    [(2, 1, True), (2, 2, False), (0, 1, False)],
    ids=["before", "own", "first-generation"],
)
def test_only_a_marker_of_its_own_transaction_takes_a_batch_its_guard(
    log: PartitionLog, transaction_version: int, epoch: int, is_taken: bool
) -> None:
    """O20: the coordinator may have been asked about the next transaction while the markers of the one before
    were on their way, and have answered when all were there."""
    append(log, b"a")
    made = transactional(b"b", epoch=1)
    guard = verified(log, made, adds_partition=True)
    end(log, committed=True, epoch=epoch, transaction_version=transaction_version)
    if is_taken:
        assert log.append(made, 0, guard=guard).base_offset == 2
    else:
        assert refused(log, made, guard) in (ErrorCode.invalid_txn_state, ErrorCode.invalid_producer_epoch)


def test_late_markers_and_zombies_are_refused(log: PartitionLog) -> None:
    append(log, b"a", epoch=1)
    assert refused_end(log, epoch=0) == ErrorCode.invalid_producer_epoch
    end(log, committed=False, epoch=2, term=5)
    assert refused_end(log, epoch=1, term=6) == ErrorCode.invalid_producer_epoch
    assert refused_end(log, epoch=2, term=4) == ErrorCode.transaction_coordinator_fenced
    zombie = transactional(b"b", epoch=1, sequence=1)
    assert refused(log, zombie) == ErrorCode.invalid_producer_epoch
    end(log, committed=False, epoch=2, term=5)
    assert log.stable_offset == log.end_offset


def test_transactions_that_nobody_confirms_are_given_up(log: PartitionLog) -> None:
    """Any client may send a batch in any producer's name, so what the coordinator refuses must not stay."""
    late = transactional(b"late", producer_id=0)
    guard = verified(log, late)
    for producer_id in range(1, GUARDS_MAX + 1):
        verified(log, transactional(b"unconfirmed", producer_id=producer_id))
    assert refused(log, late, guard) == ErrorCode.invalid_txn_state
    assert append(log, b"kept", producer_id=GUARDS_MAX) == 0


def test_the_first_batch_of_the_second_generation_begins_with_sequence_zero(log: PartitionLog) -> None:
    """W33: a producer of the first generation, and one that is in no transaction, may begin anywhere."""
    behind = transactional(b"a", sequence=5)
    guard = verified(log, behind, adds_partition=True)
    assert refused(log, behind, guard) == ErrorCode.out_of_order_sequence_number
    made = transactional(b"a")
    assert log.append(made, 0, guard=verified(log, made, adds_partition=True)).base_offset == 0
    assert append(log, b"b", producer_id=8, sequence=5) == 1
    assert log.append(batch(b"c", producer_id=9, epoch=0, sequence=5), 0).base_offset == 2


def test_what_was_verified_with_a_lower_sequence_comes_first(log: PartitionLog) -> None:
    """W33: the coordinator refused sequences 3 and 4 for a while. A newer epoch begins anew."""
    batches = {sequence: transactional(b"a", sequence=sequence) for sequence in (3, 4, 5)}
    for sequence in (4, 3, 5):
        verified(log, batches[sequence])
    guard = log.transactions.guard(7)
    assert refused(log, batches[5], guard) == ErrorCode.out_of_order_sequence_number
    assert refused(log, batches[4], guard) == ErrorCode.out_of_order_sequence_number
    newer = transactional(b"a", epoch=1, sequence=4)
    assert log.append(newer, 0, guard=verified(log, newer)).base_offset == 0
    assert log.transactions.guard(7) is None


def test_the_first_request_says_of_which_generation_a_transaction_is(log: PartitionLog) -> None:
    """W33: batches of the producer that are in no transaction are measured by it too."""
    behind = transactional(b"a", sequence=5)
    verified(log, behind, adds_partition=True)
    assert refused(log, behind, verified(log, behind)) == ErrorCode.out_of_order_sequence_number
    plain = batch(b"a", producer_id=7, epoch=0, sequence=5)
    assert refused(log, plain) == ErrorCode.out_of_order_sequence_number


def test_an_older_epoch_is_refused_before_it_is_verified(log: PartitionLog) -> None:
    """W33: of data and of markers, in an open transaction and in none."""
    append(log, b"a", epoch=1)
    for newest in (1, 2):
        with pytest.raises(LogError) as refusal:
            verified(log, transactional(b"b", epoch=newest - 1))
        assert refusal.value.error_code == ErrorCode.invalid_producer_epoch
        end(log, committed=True, epoch=2)


def test_a_transactional_batch_needs_no_producer(log: PartitionLog) -> None:
    """Kafka takes it as it takes any batch; it was INVALID_RECORD."""
    made = with_field(batch(b"a"), ATTRIBUTES_AT, ">h", TRANSACTIONAL)
    assert log.append(made, 0).base_offset == 0
    assert log.stable_offset == 1
