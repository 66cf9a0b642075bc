"""What we write for Kafka's readers of `__consumer_offsets` is taken over as what it was (W52)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.coordinator.kafka_records.codec import encode
from actors.coordinator.kafka_records.committed import CommittedRecords
from actors.ground.records import FOREIGN_RECORD, PENDING_TXN_OFFSET, PRODUCER_MARKER, TAKEN_LOG
from tests.coordinator.take_over.taker import Taker
from tests.coordinator.take_over.test_random_logs import Writer
from tests.upstream.offsets_log.logs import KafkaLog

OF_THE_LOG = (FOREIGN_RECORD, PENDING_TXN_OFFSET, PRODUCER_MARKER, TAKEN_LOG)
"""Record types that our own log of Kafka's records does not have."""


def groups_of(taker: Taker) -> dict[Any, Any]:
    return {key: value for key, value in taker.records().items() if key[0] not in OF_THE_LOG}


@pytest.mark.parametrize("seed", range(30))
def test_a_state_that_goes_there_and_back_is_the_same(seed: int) -> None:
    there = Taker()
    there.take_over(Writer(seed).write())
    committed = CommittedRecords()
    written = [*committed.to_kafka(there.shard.records()), *committed.held_back()]
    log = KafkaLog()
    log.append([encode(record) for record in written])
    back = Taker()
    back.take_over(log)
    assert groups_of(back) == groups_of(there)
