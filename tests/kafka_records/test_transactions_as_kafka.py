"""What a shard writes of transactional ids beside what a real Kafka wrote of the same stories (W53).

Each story of `capture_transactions` is played to a shard. Both logs have to tell the same, step by step, but
for times and producer ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.coordinator.kafka_records import codec
from actors.coordinator.kafka_records.codec import KafkaRecord
from actors.coordinator.kafka_records.schemas import TRANSACTION_SCHEMAS
from actors.coordinator.kafka_records.transactions import CommittedTransactions, transaction_to_kafka
from actors.ground import records as ours
from actors.ground.contract import Result
from actors.ground.settings import GroupSettings
from actors.ground.topic_names import OFFSETS_TOPIC
from cluster.kafka_records import json_form
from tests.coordinator.transactions.driver import ID, TransactionDriver
from tests.kafka_records.capture_transactions import STORIES, TOPIC
from tests.kafka_records.golden import TRANSACTION_LINES, parts

EXPIRATION_MS = 20_000
TIMES = ("transactionLastUpdateTimestampMs", "transactionStartTimestampMs")


class Producer:
    """The producer of a story, on a shard whose records are kept in their order."""

    def __init__(self) -> None:
        self.written: list[ours.TransactionValue | None] = []
        self.tier = _Watched(self.written)
        self._now = (-1, -1)

    def init(self, *, timeout_ms: int = 60_000, recovers: bool = False) -> None:
        before = self._now if recovers else (-1, -1)
        answer = self.tier.init(timeout_ms=timeout_ms, recovers=before)
        if answer.error_code:  # the transaction of the producer before is ended first
            self.tier.deliver_markers()
            answer = self.tier.init(timeout_ms=timeout_ms, recovers=before)
        assert answer.error_code == 0
        self._now = answer.producer_id, answer.producer_epoch

    def add(self, *partitions: int) -> None:
        errors = self.tier.add_partitions(self._now, TOPIC, *partitions)
        assert set(errors.values()) == {0}

    def add_group(self) -> None:
        assert self.tier.add_offsets(self._now) == 0

    def commit_offset(self) -> None:
        assert self.tier.commit_in_transaction(self._now, version=5) == 0

    def end(self, version: int, *, committed: bool) -> None:
        assert self.tier.end(self._now, committed=committed, version=version) == 0
        self.tier.deliver_markers()
        if version >= 5:
            stored = self.tier.transaction()
            self._now = stored.producer_id, stored.producer_epoch

    def time_out(self) -> None:
        self.tier.advance(self.tier.transaction().txn_timeout_ms + 1)
        self.tier.deliver_markers()


class _Watched(TransactionDriver):
    """A driver that keeps what is written of its transactional id."""

    def __init__(self, written: list[ours.TransactionValue | None]) -> None:
        self._written = written
        super().__init__(
            settings=GroupSettings(transactional_id_expiration_ms=EXPIRATION_MS), **{TOPIC: 6, "t": 1}
        )

    def saw(self, result: Result) -> None:
        for key, value in result.records:
            if key[0] == ours.TRANSACTION:
                assert value is None or isinstance(value, ours.TransactionValue)
                self._written.append(value)
        super().saw(result)


def told(records: list[KafkaRecord]) -> Iterator[dict[str, Any] | None]:
    """Yield what each record says, without what differs from one Kafka to the next: the first producer id,
    the time, which partition a group has, and the order in which topics and partitions stand."""
    first = next(record.value["producerId"] for record in records if record.value is not None)
    for record in records:
        if record.value is None:
            yield None
            continue
        said = dict(record.value)
        for name in ("producerId", "previousProducerId"):
            said[name] -= first
        for name in TIMES:
            said[name] = said[name] >= 0
        if said["transactionPartitions"] is not None:
            said["transactionPartitions"] = {
                each["topic"]: "of the group"
                if each["topic"] == OFFSETS_TOPIC
                else sorted(each["partitionIds"])
                for each in said["transactionPartitions"]
            }
        yield said


@pytest.mark.parametrize("transactional_id", STORIES)
def test_a_shard_writes_of_a_story_what_kafka_wrote_of_it(transactional_id: str) -> None:
    """Each story goes from Empty to the tombstone of an id that has expired."""
    kafkas = [
        codec.decode(*parts(line), TRANSACTION_SCHEMAS)
        for line in TRANSACTION_LINES
        if line["json"]["key"]["data"]["transactionalId"] == transactional_id
    ]
    producer = Producer()
    for method, arguments, fields in STORIES[transactional_id]:
        getattr(producer, method)(*arguments, **fields)
    producer.tier.advance(EXPIRATION_MS)
    records = [transaction_to_kafka((ours.TRANSACTION, transactional_id), each) for each in producer.written]
    written = [
        codec.decode(*codec.encode(record, TRANSACTION_SCHEMAS), TRANSACTION_SCHEMAS) for record in records
    ]
    assert [record.key for record in written] == [record.key for record in kafkas]
    assert [record.version for record in written] == [record.version for record in kafkas]
    assert list(told(written)) == list(told(kafkas))
    assert kafkas[-1].value is None


WRITTEN_HERE = [
    line
    for line in TRANSACTION_LINES
    if line["json"]["value"] is None
    or (line["json"]["value"]["version"] == 1 and "nextProducerEpoch" not in line["json"]["value"]["data"])
]
"""Kafka's records but for those of version 0, and those of KIP-939, which is not served here."""


@pytest.mark.parametrize("line", WRITTEN_HERE)
def test_what_kafka_wrote_is_written_again_byte_for_byte(line: dict[str, Any]) -> None:
    record = codec.decode(*parts(line), TRANSACTION_SCHEMAS)
    value = record.value
    packed = value and (
        value["producerId"],
        value["previousProducerId"],
        value["producerEpoch"],
        -1,
        value["transactionTimeoutMs"],
        value["transactionStatus"],
        tuple((each["topic"], tuple(each["partitionIds"])) for each in value["transactionPartitions"] or ()),
        value["transactionStartTimestampMs"],
        value["transactionLastUpdateTimestampMs"],
        value["nextProducerId"],
        value["clientTransactionVersion"],
    )
    key = (ours.TRANSACTION, record.key["transactionalId"])
    assert codec.encode(transaction_to_kafka(key, packed), TRANSACTION_SCHEMAS) == parts(line)
    assert json_form.to_json(transaction_to_kafka(key, packed), TRANSACTION_SCHEMAS) == line["json"]


def test_nothing_but_transactional_ids_is_written() -> None:
    """What else the partition commits is for `__consumer_offsets`."""
    conversion = CommittedTransactions()
    state: list[Any] = [
        ((ours.GROUP_METADATA, "g"), ("consumer", 7, "range", "m", 1)),
        ((ours.TRANSACTION, ID), (7, -1, 0, -1, 60_000, 0, (), -1, 5, -1, 0)),
        ((ours.PRODUCER_ID_BLOCK, ""), (0, 1)),
        ((ours.TRANSACTION, "gone"), None),
    ]
    found = [*conversion.to_kafka(state), *conversion.held_back()]
    assert [record.key["transactionalId"] for record in found] == [ID, "gone"]
    assert found[1].value is None
