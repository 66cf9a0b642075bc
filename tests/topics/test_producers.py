"""Idempotent producers: a retry is answered with its first offset, a gap is refused (KIP-98)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.topics import producers
from actors.topics.errors import LogError
from actors.topics.partition_log import LogSettings, PartitionLog
from tests.topics.batches import batch


@pytest.fixture
def log() -> PartitionLog:
    return PartitionLog(LogSettings(1_000_000, 1_000_000, None), 0, lambda end: None)


def send(log: PartitionLog, sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 7) -> int:
    """Append a batch of the producer's. Returns its base offset."""
    values = [b"v"] * count
    records = batch(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return log.append(records, 0).base_offset


def refusal(log: PartitionLog, sequence: int, *, epoch: int = 0, count: int = 1) -> ErrorCode:
    with pytest.raises(LogError) as caught:
        send(log, sequence, epoch=epoch, count=count)
    return caught.value.error_code


def test_each_of_the_last_five_batches_may_be_sent_again(log: PartitionLog) -> None:
    for sequence in range(6):
        assert send(log, sequence * 2, count=2) == sequence * 2
    for sequence in range(1, 6):
        assert send(log, sequence * 2, count=2) == sequence * 2
    assert log.end_offset == 12
    assert refusal(log, 0, count=2) == ErrorCode.out_of_order_sequence_number


def test_a_gap_and_a_partial_repetition_are_out_of_order(log: PartitionLog) -> None:
    send(log, 0, count=3)
    assert refusal(log, 4) == ErrorCode.out_of_order_sequence_number
    assert refusal(log, 1, count=2) == ErrorCode.out_of_order_sequence_number
    assert send(log, 3) == 3


def test_a_new_epoch_begins_at_sequence_zero_and_ends_the_old_one(log: PartitionLog) -> None:
    send(log, 0)
    assert refusal(log, 5, epoch=1) == ErrorCode.out_of_order_sequence_number
    assert send(log, 0, epoch=1) == 1
    assert refusal(log, 1, epoch=0) == ErrorCode.invalid_producer_epoch
    assert send(log, 0, epoch=1) == 1


def test_sequences_wrap_at_the_end_of_int32(log: PartitionLog) -> None:
    last = 2**31 - 1
    assert send(log, last - 1, count=3) == 0
    assert send(log, last - 1, count=3) == 0
    assert send(log, 1) == 3
    assert refusal(log, 0) == ErrorCode.out_of_order_sequence_number


def test_an_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    assert send(log, 100) == 0
    assert send(log, 101) == 1


def test_the_idlest_producer_is_forgotten_first(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    send(log, 0, producer_id=1)
    send(log, 0, producer_id=2)
    send(log, 1, producer_id=1)
    send(log, 0, producer_id=3)
    assert send(log, 0, producer_id=2) == 4
    assert send(log, 0, producer_id=3) == 3
