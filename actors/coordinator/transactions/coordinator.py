"""The transaction coordinator: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and time-outs.

One TRANSACTION record a transactional id. A transaction's outcome is a record (PrepareCommit, PrepareAbort)
before anybody hears of it; then the host has its markers written (`events.TransactionEnding`) and says so
(`inside.TxnEndedRequest`). The rules are org.apache.kafka TransactionCoordinator's, KIP-98, KIP-360 and
KIP-890. Kafka answers CONCURRENT_TRANSACTIONS while a transition is being written; here it is in force at
once, and the answer waits for its commit.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from actors.catalog import transaction_refusals
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.state import ShardState
from actors.coordinator.transactions import metadata, producer_ids
from actors.coordinator.transactions.events import TransactionEnding
from actors.coordinator.transactions.inside import (
    TXN_ENDED,
    TXN_ENDING,
    InsideResponse,
    TxnEndedRequest,
    TxnEndingRequest,
    TxnEndingResponse,
    inside_refused,
)
from actors.coordinator.transactions.metadata import Producer
from actors.coordinator.transactions.states import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING,
    ONGOING,
    PREPARE_COMMIT,
)
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.ground.image import MetadataImage
from actors.ground.records import (
    PRODUCER_ID_BLOCK,
    TRANSACTION,
    TransactionKey,
    TransactionValue,
)
from actors.ground.snapshot_build import live_items
from actors.ground.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR
from actors.protocol.partitioning import may_be_moved_to, partitioning_of
from actors.protocol.transaction_codec import BATCHES_SINCE
from actors.protocol.transaction_messages import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    SECOND_GENERATION,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TopicErrors,
    TopicNumbers,
    TransactionPartitionErrors,
    TransactionPartitions,
    same_error,
)

TIMER = "transaction"
NEXT_EPOCH_SINCE = 5
"""The first version of EndTxn that gives the producer its next epoch (KIP-890)."""


# InitProducerId.


def init_producer_id(state: ShardState, request: Request, now_ms: int) -> Result:
    """InitProducerId of a transactional producer: the next epoch, which fences all that had the id before.

    An open transaction of theirs is aborted first: CONCURRENT_TRANSACTIONS, the producer asks again.
    """
    body: InitProducerIdRequest = request.body
    transactional_id = body.transactional_id
    expected = _expected(body)
    if not transactional_id:
        raise GroupError(ErrorCode.invalid_request)
    if not 0 < body.transaction_timeout_ms <= state.settings.transaction_max_timeout_ms:
        raise GroupError(ErrorCode.invalid_transaction_timeout)
    records: list[Record] = []
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        producer_id, record = _next_producer_id(state, transactional_id)
        records.append(record)
        transaction = metadata.created(producer_id, body.transaction_timeout_ms, now_ms)
    if expected is not None and not metadata.is_known(transaction, expected):
        raise GroupError(ErrorCode.producer_fenced)
    if transaction.state in ENDING:
        raise GroupError(ErrorCode.concurrent_transactions)
    if transaction.state == ONGOING:
        return _aborted(state, request, transaction, now_ms)
    if metadata.needs_new_producer_id(transaction, expected):
        producer_id, record = _next_producer_id(state, transactional_id)
        records.append(record)
        transaction = metadata.with_new_producer_id(transaction, producer_id, expected)
    else:
        transaction = metadata.with_next_epoch(transaction, expected)
    transaction = transaction._replace(txn_timeout_ms=body.transaction_timeout_ms)
    records.append(_write(state, transactional_id, transaction, now_ms))
    answer = InitProducerIdResponse(NO_ERROR, transaction.producer_id, transaction.producer_epoch)
    return Result(records, (Reply(request.token, answer, transactional_id),))


def _expected(body: InitProducerIdRequest) -> Producer | None:
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        raise GroupError(ErrorCode.invalid_request)
    return None if body.producer_id == NO_PRODUCER_ID else Producer(body.producer_id, body.producer_epoch)


def _next_producer_id(state: ShardState, transactional_id: str) -> tuple[int, Record]:
    partition = state.home.partition
    if partition is None:
        partition = partitioning_of(state.image).partition_of(transactional_id)
    return producer_ids.next_producer_id(state, partition)


def _aborted(state: ShardState, request: Request, transaction: TransactionValue, now_ms: int) -> Result:
    transactional_id = request.body.transactional_id
    record = _write(state, transactional_id, metadata.fenced(transaction), now_ms)
    answer = InitProducerIdResponse(ErrorCode.concurrent_transactions)
    reply = Reply(request.token, answer, transactional_id)
    return Result((record,), (reply,), (TransactionEnding(transactional_id),))


# AddPartitionsToTxn, AddOffsetsToTxn.


def add_partitions(state: ShardState, request: Request, now_ms: int) -> Result:
    """AddPartitionsToTxn: of one client's transaction, or (version 4) of several, asked by brokers."""
    body: AddPartitionsToTxnRequest = request.body
    records: list[Record] = []
    results = []
    # Of a transactional id that is named twice the first entry counts, as in Kafka.
    transactions = {each.transactional_id: each for each in reversed(body.transactions)}
    for each in reversed(transactions.values()):
        try:
            topics = _added_topics(state, request, each, records, now_ms)
        except GroupError as error:
            topics = same_error(each.topics, transaction_refusals.for_version(request, error.error_code))
        results.append(TransactionPartitionErrors(each.transactional_id, topics))
    answer = AddPartitionsToTxnResponse(tuple(results))
    only = results[0].transactional_id if len(results) == 1 else None
    return Result(records, (Reply(request.token, answer, only),))


def _added_topics(
    state: ShardState, request: Request, added: TransactionPartitions, records: list[Record], now_ms: int
) -> TopicErrors:
    """The error of each partition; what is to be written goes to `records`. Raises GroupError."""
    by_client = request.api_version < BATCHES_SINCE
    problems = _problems(state.image, added.topics, by_client=by_client)
    if problems is not None:
        return problems
    if added.verify_only:
        return _verified(state.image, _open_to(state, added), added.topics)
    generation = metadata.FIRST_GENERATION if by_client else SECOND_GENERATION
    record = _added(state, added, generation, now_ms)
    if record is not None:
        records.append(record)
    return same_error(added.topics, NO_ERROR)


def add_offsets(state: ShardState, request: Request, now_ms: int) -> Result:
    """AddOffsetsToTxn: the partition of the group's offsets becomes part of the transaction."""
    body: AddOffsetsToTxnRequest = request.body
    partition = partitioning_of(state.image).partition_of(body.offsets_group_id)
    topics = ((OFFSETS_TOPIC, (partition,)),)
    added = TransactionPartitions(body.transactional_id, body.producer_id, body.producer_epoch, topics)
    record = _added(state, added, metadata.FIRST_GENERATION, now_ms)
    reply = Reply(request.token, AddOffsetsToTxnResponse(NO_ERROR), body.transactional_id)
    return Result(() if record is None else (record,), (reply,))


def _open_to(state: ShardState, added: TransactionPartitions) -> TransactionValue:
    """The transactional id, if the producer that asks has it and its last transaction is not just ending.
    Raises GroupError."""
    if not added.transactional_id:
        raise GroupError(ErrorCode.invalid_request)
    transaction = state.transactions.get(added.transactional_id)
    if transaction is None or transaction.producer_id != added.producer_id:
        raise GroupError(ErrorCode.invalid_producer_id_mapping)
    if transaction.producer_epoch != added.producer_epoch:
        raise GroupError(ErrorCode.producer_fenced)
    if transaction.state in ENDING:
        raise GroupError(ErrorCode.concurrent_transactions)
    return transaction


def _added(
    state: ShardState, added: TransactionPartitions, client_version: int, now_ms: int
) -> Record | None:
    """Return the record that adds the partitions, None if it has them all. Raises GroupError."""
    transaction = _open_to(state, added)
    if (
        transaction.state == ONGOING
        and metadata.joined(transaction.partitions, added.topics) == transaction.partitions
    ):
        return None
    transaction = metadata.with_partitions(transaction, added.topics, client_version, now_ms)
    return _write(state, added.transactional_id, transaction, now_ms)


def _verified(image: MetadataImage, transaction: TransactionValue, topics: TopicNumbers) -> TopicErrors:
    total = partitioning_of(image).total

    def error(topic: str, number: int) -> ErrorCode:
        # A group may have moved since the transaction named its partition, which passes its marker on.
        before = may_be_moved_to(number, total) if topic == OFFSETS_TOPIC else []
        is_part = any(metadata.has_partition(transaction, topic, each) for each in (number, *before))
        return NO_ERROR if is_part else ErrorCode.transaction_abortable

    return tuple(
        (topic, tuple((number, error(topic, number)) for number in numbers)) for topic, numbers in topics
    )


def _exists(image: MetadataImage, topic: str, partition: int) -> bool:
    if topic == OFFSETS_TOPIC:
        return 0 <= partition < partitioning_of(image).total
    known = image.topics.get(topic)
    return known is not None and 0 <= partition < known.partition_count


def _problems(image: MetadataImage, topics: TopicNumbers, *, by_client: bool) -> TopicErrors | None:
    """Return the errors if one partition does not exist, or is one of an internal topic that a client names
    (W51): nothing is added then. None: all may be added."""

    def error(topic: str, number: int) -> ErrorCode:
        if by_client and topic in INTERNAL_TOPICS:
            return ErrorCode.topic_authorization_failed
        return NO_ERROR if _exists(image, topic, number) else ErrorCode.unknown_topic_or_partition

    errors = tuple(
        (topic, tuple((number, error(topic, number)) for number in numbers)) for topic, numbers in topics
    )
    if not any(code for _, numbers in errors for _, code in numbers):
        return None
    left = ErrorCode.operation_not_attempted
    return tuple(
        (topic, tuple((number, code or left) for number, code in numbers)) for topic, numbers in errors
    )


# EndTxn and what follows.


def end(state: ShardState, request: Request, now_ms: int) -> Result:
    """EndTxn: the outcome is decided; a repeated request is answered as the first one. From version 5 on the
    producer is given its next epoch with it (O18)."""
    body: EndTxnRequest = request.body
    if not body.transactional_id:
        raise GroupError(ErrorCode.invalid_request)
    transaction = state.transactions.get(body.transactional_id)
    if transaction is None:
        raise GroupError(ErrorCode.invalid_producer_id_mapping)
    if request.api_version >= NEXT_EPOCH_SINCE:
        return _ended_with_next_epoch(state, request, transaction, now_ms)
    if transaction.producer_id != body.producer_id:
        raise GroupError(ErrorCode.invalid_producer_id_mapping)
    if transaction.producer_epoch != body.producer_epoch:
        raise GroupError(ErrorCode.producer_fenced)
    if transaction.state == ONGOING:
        return _prepared(state, request, metadata.prepared(transaction, committed=body.committed), now_ms)
    if transaction.state == EMPTY:
        raise GroupError(ErrorCode.invalid_txn_state)
    return _answered_again(request, transaction)


def _ended_with_next_epoch(
    state: ShardState, request: Request, transaction: TransactionValue, now_ms: int
) -> Result:
    body: EndTxnRequest = request.body
    producer = Producer(body.producer_id, body.producer_epoch)
    is_now = producer == (transaction.producer_id, transaction.producer_epoch)
    had_before = metadata.had(transaction, producer)
    if transaction.producer_id != body.producer_id and not had_before:
        raise GroupError(ErrorCode.invalid_producer_id_mapping)
    if not is_now and (transaction.state in (EMPTY, ONGOING) or not had_before):
        raise GroupError(ErrorCode.producer_fenced)
    if transaction.state in ENDING or had_before:
        return _answered_again(request, transaction)
    if transaction.state != ONGOING and body.committed:
        raise GroupError(ErrorCode.invalid_txn_state)
    records: list[Record] = []
    next_producer_id = NO_PRODUCER_ID
    if metadata.is_exhausted(transaction.producer_epoch):
        next_producer_id, record = _next_producer_id(state, body.transactional_id)
        records.append(record)
    after = metadata.prepared_with_next_epoch(
        transaction, committed=body.committed, next_producer_id=next_producer_id, now_ms=now_ms
    )
    result = _prepared(state, request, after, now_ms)
    return result._replace(records=(*records, *result.records))


def _prepared(state: ShardState, request: Request, transaction: TransactionValue, now_ms: int) -> Result:
    transactional_id = request.body.transactional_id
    record = _write(state, transactional_id, transaction, now_ms)
    reply = _end_reply(request, transaction)
    return Result((record,), (reply,), (TransactionEnding(transactional_id),))


def _end_reply(request: Request, transaction: TransactionValue) -> Reply:
    answer = EndTxnResponse(NO_ERROR, *metadata.goes_on_as(transaction))
    return Reply(request.token, answer, request.body.transactional_id)


def _answered_again(request: Request, transaction: TransactionValue) -> Result:
    """Answer a request for the outcome that was decided before. Raises INVALID_TXN_STATE for the other one,
    CONCURRENT_TRANSACTIONS as long as markers are written."""
    commits = transaction.state in (PREPARE_COMMIT, COMPLETE_COMMIT)
    if commits != request.body.committed:
        raise GroupError(ErrorCode.invalid_txn_state)
    if transaction.state in ENDING:
        raise GroupError(ErrorCode.concurrent_transactions)
    assert transaction.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
    return Result((), (_end_reply(request, transaction),))


def ending(state: ShardState, request: Request, now_ms: int) -> Result:
    """The markers of a transaction that is ending; this answer leaves once the decision is committed."""
    body: TxnEndingRequest = request.body
    transaction = state.transactions.get(body.transactional_id)
    if transaction is None or transaction.state not in ENDING:
        raise GroupError(ErrorCode.invalid_txn_state)
    answer = TxnEndingResponse(
        NO_ERROR,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state == PREPARE_COMMIT,
        transaction.partitions,
        transaction.client_version,
    )
    return Result((), (Reply(request.token, answer, body.transactional_id),))


def ended(state: ShardState, request: Request, now_ms: int) -> Result:
    """Every partition has its marker: the producer may begin its next transaction."""
    body: TxnEndedRequest = request.body
    transaction = state.transactions.get(body.transactional_id)
    reply = Reply(request.token, InsideResponse(NO_ERROR), body.transactional_id)
    if transaction is None or transaction.state not in ENDING:
        return Result((), (reply,))
    if (transaction.producer_id, transaction.producer_epoch) != (body.producer_id, body.producer_epoch):
        return Result((), (reply,))
    record = _write(state, body.transactional_id, metadata.completed(transaction), now_ms)
    return Result((record,), (reply,))


# Time.


def _write(state: ShardState, transactional_id: str, transaction: TransactionValue, now_ms: int) -> Record:
    transaction = transaction._replace(last_update_ms=now_ms)
    schedule(state, transactional_id, transaction)
    return Record(TransactionKey(TRANSACTION, transactional_id), transaction)


def schedule(state: ShardState, transactional_id: str, transaction: TransactionValue) -> None:
    """An open transaction times out, an unused id expires; one that is ending waits for its markers alone."""
    key = (TIMER, transactional_id)
    if transaction.state == ONGOING:
        state.timers.schedule(key, transaction.start_ms + transaction.txn_timeout_ms + 1)
    elif transaction.state in AT_REST:
        expiration_ms = state.settings.transactional_id_expiration_ms
        state.timers.schedule(key, transaction.last_update_ms + expiration_ms)
    else:
        state.timers.cancel(key)


def _fire(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    transactional_id = str(key[1])
    transaction = state.transactions.get(transactional_id)
    if transaction is None or transaction.state in ENDING:
        return NOTHING
    if transaction.state == ONGOING:
        record = _write(state, transactional_id, metadata.fenced(transaction), now_ms)
        return Result((record,), (), (TransactionEnding(transactional_id),))
    return Result((Record(TransactionKey(TRANSACTION, transactional_id), None),))


def _on_elected(state: ShardState, now_ms: int) -> Result:
    """Whatever was ending goes on from the replicated decision; markers that were written are written again,
    which changes nothing."""
    for transactional_id, transaction in state.transactions.items():
        schedule(state, transactional_id, transaction)
    return Result(
        events=[
            TransactionEnding(transactional_id)
            for transactional_id, transaction in state.transactions.items()
            if transaction.state in ENDING
        ]
    )


# State.


def _apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    transactional_id = key[1]
    if value is None:
        return state.transactions.pop(transactional_id, None)
    assert isinstance(value, TransactionValue)
    replaced = state.transactions.get(transactional_id)
    state.transactions[transactional_id] = value
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    yield from producer_ids.records(state)
    for transactional_id, transaction in live_items(state.transactions, list(state.transactions)):
        yield Record(TransactionKey(TRANSACTION, transactional_id), transaction)


def _ending_refused(request: Request, error: ErrorCode, message: str | None) -> TxnEndingResponse:
    return TxnEndingResponse(error)


AREA = Area(
    handlers={
        api_keys.INIT_PRODUCER_ID: init_producer_id,
        api_keys.ADD_PARTITIONS_TO_TXN: add_partitions,
        api_keys.ADD_OFFSETS_TO_TXN: add_offsets,
        api_keys.END_TXN: end,
        TXN_ENDING: ending,
        TXN_ENDED: ended,
    },
    refusals={TXN_ENDING: _ending_refused, TXN_ENDED: inside_refused},
    appliers={TRANSACTION: _apply, PRODUCER_ID_BLOCK: producer_ids.apply},
    timers={TIMER: _fire},
    records=_records,
    on_elected=_on_elected,
)
