"""What was fetched is taken piece by piece, and the next Fetch waits until all of it is committed."""

from __future__ import annotations

import pytest

from actors.upstream.offsets_log.errors import LogUnreadable, TakingRefused
from tests.upstream.offsets_log.asked import Asked
from tests.upstream.offsets_log.logs import KafkaLog, commit, packed

PRODUCER = (7, 0)


def a_log() -> KafkaLog:
    log = KafkaLog()
    log.append([commit("g", 0, 1)])
    log.pend(PRODUCER, commit("g", 0, 9))
    log.mark(PRODUCER, committed=True)
    log.append([commit("g", 1, 2)])
    return log


def test_all_pieces_of_a_fetch_are_one_entry_of_our_log() -> None:
    asked = Asked()
    assert asked.take(a_log().raw()) == 4
    assert asked.entries == 1
    assert asked.taker.serve(4).error_code == 0
    assert asked.taker.offsets("g") == {("t", 0): 9, ("t", 1): 2}


def test_what_stands_before_a_damaged_batch_is_taken() -> None:
    log, asked = a_log(), Asked()
    damaged = bytearray(log.raw())
    damaged[-1] ^= 1
    with pytest.raises(LogUnreadable, match="the batch at offset 3 does not match its CRC"):
        asked.take(bytes(damaged))
    assert asked.taker.next_offset == 3
    assert asked.take(b"".join(map(packed, log.batches[3:])), 3) == 4


def test_a_shard_that_refuses_is_quoted() -> None:
    with pytest.raises(TakingRefused, match="offsets 0 to 2 of Kafka's log are missing"):
        Asked().take(packed(a_log().batches[3]), 3)
