"""What becomes of a transactional id's producer: epochs, producer ids, partitions, states.

Every function takes the stored value and gives the next one; nothing is stored here. The rules are those of
Kafka's TransactionMetadata. Both generations of transactions are served side by side (KIP-890): a client
whose EndTxn is of version 5 is given an epoch with each end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.transactions.states import (
    AT_REST,
    COMPLETES,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREVIOUS,
)
from actors.ground.records import TransactionValue
from actors.protocol.errors import GroupError
from actors.protocol.transaction_messages import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    SECOND_GENERATION,
    TopicNumbers,
)

FIRST_GENERATION = 0
"""What `TransactionValue.client_version` says of clients before KIP-890; those since are of the second
generation (TV_2)."""
EPOCH_MAX = 2**15 - 1
NEVER_MS = -1


class Producer(NamedTuple):
    """Producer id and epoch as a request names them."""

    producer_id: int
    producer_epoch: int


def is_exhausted(producer_epoch: int) -> bool:
    """Whether a producer has no epoch left: the last one is kept for fencing the producer that has it."""
    return producer_epoch >= EPOCH_MAX - 1


def created(producer_id: int, txn_timeout_ms: int, now_ms: int) -> TransactionValue:
    """A transactional id that was never seen; its first epoch is still to be given."""
    return TransactionValue(
        producer_id,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_PRODUCER_EPOCH,
        txn_timeout_ms,
        EMPTY,
        (),
        NEVER_MS,
        now_ms,
    )


def is_known(transaction: TransactionValue, expected: Producer) -> bool:
    """Whether a recovering producer may be the one that this id belongs to (KIP-360)."""
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.last_producer_id and is_exhausted(expected.producer_epoch))
    )


def needs_new_producer_id(transaction: TransactionValue, expected: Producer | None) -> bool:
    return is_exhausted(transaction.producer_epoch) and (
        expected is None or expected.producer_epoch == transaction.producer_epoch
    )


def with_new_producer_id(
    transaction: TransactionValue, producer_id: int, expected: Producer | None
) -> TransactionValue:
    """The epochs are used up: a new producer id, which begins at 0."""
    last_epoch = NO_PRODUCER_EPOCH if expected is None else transaction.producer_epoch
    return _to(
        transaction,
        EMPTY,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=last_epoch,
        partitions=(),
        start_ms=NEVER_MS,
    )


def with_next_epoch(transaction: TransactionValue, expected: Producer | None) -> TransactionValue:
    """The next epoch, or for a repeated request the one it was given. Raises PRODUCER_FENCED."""
    epoch, last_epoch = transaction.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected is not None:
        sent = expected.producer_epoch
        if transaction.producer_epoch in (NO_PRODUCER_EPOCH, sent):
            last_epoch = transaction.producer_epoch
        elif sent == transaction.last_producer_epoch and not is_exhausted(transaction.producer_epoch):
            epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
        else:
            raise GroupError(ErrorCode.producer_fenced)
    return _to(
        transaction,
        EMPTY,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        partitions=(),
        start_ms=NEVER_MS,
    )


def with_partitions(
    transaction: TransactionValue, topics: TopicNumbers, client_version: int, now_ms: int
) -> TransactionValue:
    """`topics` are in the transaction, which begins with them if none is under way."""
    return _to(
        transaction,
        ONGOING,
        partitions=joined(transaction.partitions, topics),
        start_ms=now_ms if transaction.state in AT_REST else transaction.start_ms,
        client_version=client_version,
    )


def joined(partitions: TopicNumbers, more: TopicNumbers) -> TopicNumbers:
    """Return each topic once, sorted, with its partitions of both ascending."""
    by_topic = {topic: set(numbers) for topic, numbers in partitions}
    for topic, numbers in more:
        by_topic.setdefault(topic, set()).update(numbers)
    return tuple((topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic))


def has_partition(transaction: TransactionValue, topic: str, partition: int) -> bool:
    return any(name == topic and partition in numbers for name, numbers in transaction.partitions)


def prepared(transaction: TransactionValue, *, committed: bool) -> TransactionValue:
    """The transaction's outcome is decided; its producer keeps its epoch."""
    state = PREPARE_COMMIT if committed else PREPARE_ABORT
    return _to(transaction, state, client_version=FIRST_GENERATION)


def prepared_with_next_epoch(
    transaction: TransactionValue, *, committed: bool, next_producer_id: int, now_ms: int
) -> TransactionValue:
    """The outcome is decided, and the producer goes on with the next epoch, or with `next_producer_id` unless
    that is NO_PRODUCER_ID (O18). Nothing but an abort may end what has no partitions."""
    begun = transaction.state == ONGOING
    return _to(
        transaction,
        PREPARE_COMMIT if committed else PREPARE_ABORT,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch,
        partitions=transaction.partitions if begun else (),
        start_ms=transaction.start_ms if begun else now_ms,
        next_producer_id=next_producer_id,
        client_version=SECOND_GENERATION,
    )


def goes_on_as(transaction: TransactionValue) -> Producer:
    """Id and epoch of the producer once the transaction that is ending has ended."""
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return Producer(transaction.next_producer_id, 0)
    return Producer(transaction.producer_id, transaction.producer_epoch)


def had(transaction: TransactionValue, producer: Producer) -> bool:
    """Whether the producer had this id and epoch until the last end gave it its present ones (O18)."""
    if producer.producer_id == transaction.producer_id:
        return producer.producer_epoch + 1 == transaction.producer_epoch
    rotated = producer.producer_id == transaction.last_producer_id and transaction.producer_epoch == 0
    return rotated and is_exhausted(producer.producer_epoch)


def fenced(transaction: TransactionValue) -> TransactionValue:
    """The producer is shut out by the next epoch, and its transaction aborted. Kafka ends it as one of the
    second generation, whoever began it: the epoch is given to this producer if it recovers before another
    one has its id (O18)."""
    has_next = transaction.producer_epoch < EPOCH_MAX
    return _to(
        transaction,
        PREPARE_ABORT,
        producer_epoch=transaction.producer_epoch + has_next,
        last_producer_epoch=transaction.producer_epoch,
        client_version=SECOND_GENERATION if has_next else FIRST_GENERATION,
    )


def completed(transaction: TransactionValue) -> TransactionValue:
    """Every partition has the marker."""
    producer = goes_on_as(transaction)
    return _to(
        transaction,
        COMPLETES[transaction.state],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        partitions=(),
        next_producer_id=NO_PRODUCER_ID,
    )


def _to(transaction: TransactionValue, state: int, **changes: Any) -> TransactionValue:
    assert transaction.state in PREVIOUS[state], (transaction, state)
    # As Kafka: the id before any transition, so after the one that follows a rotation it is the new one.
    return transaction._replace(state=state, last_producer_id=transaction.producer_id, **changes)
