"""What is committed of transactional ids, as the records that Kafka would write of them (W53).

Kafka has one record for a transactional id, as there is one here, and both are written at the same steps of a
transaction; so each is converted by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from actors.coordinator.kafka_records.codec import NO_VERSION, KafkaRecord
from actors.coordinator.kafka_records.committed import PlainRecord
from actors.coordinator.kafka_records.schemas import TRANSACTION_LOG, TRANSACTION_SCHEMAS
from actors.coordinator.transactions.states import EMPTY
from actors.ground import records as ours

VERSION = 1
"""The version of a value as Kafka writes it unless `transaction.version` is 0."""


class CommittedTransactions:
    """The records of transactional ids of one offsets partition on their way to Kafka's form."""

    schemas = TRANSACTION_SCHEMAS
    leader_epoch = 0
    """A partition of a tier of its own is always in its first epoch."""
    is_given = True
    """Whether the log may be read."""
    is_sealed = False
    """Whether the log has ended."""

    def restart(self) -> None:
        """Do nothing: nothing is remembered from one record to the next."""

    def to_kafka(self, records: Iterable[PlainRecord]) -> Iterator[KafkaRecord]:
        """Yield what Kafka would write for a part of the state or of a change."""
        for key, packed in records:
            if key[0] == ours.TRANSACTION:
                yield transaction_to_kafka(key, packed)

    def held_back(self) -> Iterator[KafkaRecord]:
        """Yield nothing: no record waits for another one."""
        return iter(())


def transaction_to_kafka(key: tuple[Any, ...], packed: tuple[Any, ...] | None) -> KafkaRecord:
    """Return the record of a transactional id; a tombstone for a value that is None."""
    kafka_key = {"transactionalId": key[1]}
    if packed is None:
        return KafkaRecord(TRANSACTION_LOG, kafka_key, NO_VERSION, None)
    transaction = ours.TransactionValue(*packed)
    partitions = [
        {"topic": topic, "partitionIds": list(numbers)} for topic, numbers in transaction.partitions
    ]
    fields = {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionTimeoutMs": transaction.txn_timeout_ms,
        "transactionStatus": transaction.state,
        "transactionPartitions": None if transaction.state == EMPTY else partitions,
        "transactionLastUpdateTimestampMs": transaction.last_update_ms,
        "transactionStartTimestampMs": transaction.start_ms,
        "previousProducerId": transaction.last_producer_id,
        "nextProducerId": transaction.next_producer_id,
        "clientTransactionVersion": transaction.client_version,
    }
    return KafkaRecord(TRANSACTION_LOG, kafka_key, VERSION, fields)
