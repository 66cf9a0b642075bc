"""Transactions of the metadata log (KIP-868): their records count together, or not at all."""

from __future__ import annotations

import pytest

from actors.ground.limits import METADATA_TRANSACTION_BYTES_MAX
from actors.upstream import applying
from tests.upstream.log import Log, record, topic_id

BEGIN, END, ABORT = record("begin_transaction"), record("end_transaction"), record("abort_transaction")


def named(number: int) -> bytes:
    return record("topic", name=f"topic-{number}", topic_id=topic_id(number))


def names(log: Log) -> list[str]:
    return sorted(log.image.topic_ids)


def test_records_of_an_open_transaction_are_not_seen() -> None:
    log = Log()
    log.write(named(1), BEGIN, named(2))
    log.write(named(3))
    assert names(log) == ["topic-1"]
    assert (log.image.offset, log.end) == (0, 4)
    log.write(named(4), END, named(5))
    assert names(log) == [f"topic-{number}" for number in (1, 2, 3, 4, 5)]
    assert log.image.offset == 6


def test_records_of_an_aborted_transaction_are_never_seen() -> None:
    log = Log()
    log.write(record("begin_transaction", name="bootstrap"), named(1))
    log.write(record("abort_transaction", reason="a new controller"), named(2), epoch=3)
    assert names(log) == ["topic-2"]
    assert (log.image.offset, log.image.epoch) == (3, 3)


def test_what_a_transaction_deletes_is_there_until_it_ends() -> None:
    log = Log()
    log.write(named(1))
    log.write(BEGIN, record("remove_topic", topic_id=topic_id(1)), named(2))
    assert names(log) == ["topic-1"]
    log.write(END)
    assert names(log) == ["topic-2"]


def test_a_transaction_that_nobody_ended_is_dropped_by_the_next() -> None:
    log = Log()
    log.write(BEGIN, named(1))
    log.write(BEGIN, named(2), END)
    assert names(log) == ["topic-2"]
    assert log.image.offset == 4


@pytest.mark.parametrize("end", [END, ABORT])
def test_an_end_without_a_beginning_changes_nothing(end: bytes) -> None:
    log = Log()
    log.write(named(1), end, named(2))
    assert names(log) == ["topic-1", "topic-2"]
    assert log.image.offset == 2


def test_a_control_batch_within_a_transaction_leaves_it_open() -> None:
    """A new controller says that it leads before it aborts what the last one left open."""
    log = Log()
    log.write(BEGIN, named(1))
    log.write(BEGIN[:0] + named(2))
    assert log.image.offset == -1
    log.write(ABORT)
    assert (names(log), log.image.offset) == ([], 3)


def test_a_transaction_is_not_kept_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "METADATA_TRANSACTION_BYTES_MAX", 1_000)
    assert METADATA_TRANSACTION_BYTES_MAX > 1_000
    log = Log()
    with pytest.raises(applying.TransactionTooLarge):
        log.write(BEGIN, *(named(number) for number in range(100)))
