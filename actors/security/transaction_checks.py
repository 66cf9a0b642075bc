"""Check what a client may ask of transactions, as Kafka's brokers do and with their refusals (W10)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.ground.acl import Operation, ResourceType
from actors.ground.image import MetadataImage
from actors.ground.topic_names import INTERNAL_TOPICS
from actors.protocol.offset_refusals import refused_commit
from actors.protocol.transaction_messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionPartitionErrors,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    same_error,
)
from actors.security.authorizer import Access
from actors.security.group_checks import picked, topic_check
from actors.security.screening import Screened, parted, refused

ID_FAILED: Final = ErrorCode.transactional_id_authorization_failed
_FROM_BROKERS_SINCE: Final = 4
"""The first version of AddPartitionsToTxn that comes from brokers, and not from clients."""


def init_producer_id(
    access: Access, image: MetadataImage, api_version: int, body: InitProducerIdRequest
) -> Screened:
    """Screen InitProducerId of a transactional producer: WRITE of its id."""
    return Screened(body) if _may_write(access, body) else refused(InitProducerIdResponse(ID_FAILED))


def end(access: Access, image: MetadataImage, api_version: int, body: EndTxnRequest) -> Screened:
    """Screen EndTxn: WRITE of the transactional id."""
    return Screened(body) if _may_write(access, body) else refused(EndTxnResponse(ID_FAILED))


def write_markers(access: Access, image: MetadataImage, api_version: int, body: Any) -> Screened:
    """Let WriteTxnMarkers pass: the broker has screened it (`broker_checks.write_markers`)."""
    return Screened(body)


def _may_write(access: Access, body: Any) -> bool:
    return access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)


def add_offsets(
    access: Access, image: MetadataImage, api_version: int, body: AddOffsetsToTxnRequest
) -> Screened:
    """Screen AddOffsetsToTxn: WRITE of the transactional id, and READ of the group."""
    if not _may_write(access, body):
        return refused(AddOffsetsToTxnResponse(ID_FAILED))
    if not access.may(Operation.READ, ResourceType.GROUP, body.offsets_group_id):
        return refused(AddOffsetsToTxnResponse(ErrorCode.group_authorization_failed))
    return Screened(body)


def add_partitions(
    access: Access, image: MetadataImage, api_version: int, body: AddPartitionsToTxnRequest
) -> Screened:
    """Screen AddPartitionsToTxn: WRITE of the transactional id, and of each topic; brokers may add any."""
    if api_version >= _FROM_BROKERS_SINCE:
        if access.may_cluster(Operation.CLUSTER_ACTION):
            return Screened(body)
        return refused(AddPartitionsToTxnResponse((), ErrorCode.cluster_authorization_failed))
    (transaction,) = body.transactions
    errors = None
    if not _may_write(access, transaction):
        errors = same_error(transaction.topics, ID_FAILED)
    elif not all(access.may(Operation.WRITE, ResourceType.TOPIC, topic) for topic, _ in transaction.topics):
        errors = tuple(
            (
                topic,
                tuple((number, _error(access, image, topic, number)) for number in numbers),
            )
            for topic, numbers in transaction.topics
        )
    if errors is None:
        return Screened(body)
    result = TransactionPartitionErrors(transaction.transactional_id, errors)
    return refused(AddPartitionsToTxnResponse((result,)))


def _error(access: Access, image: MetadataImage, topic: str, number: int) -> ErrorCode:
    """Return the error of one partition among some that may not be written: none of them is added. No client
    may write an internal topic, whatever its rights (W51)."""
    if topic in INTERNAL_TOPICS or not access.may(Operation.WRITE, ResourceType.TOPIC, topic):
        return ErrorCode.topic_authorization_failed
    known = image.topics.get(topic)
    if known is None or not 0 <= number < known.partition_count:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.operation_not_attempted


def offset_commit(
    access: Access, image: MetadataImage, api_version: int, body: TxnOffsetCommitRequest
) -> Screened:
    """Screen TxnOffsetCommit: WRITE of the transactional id, READ of the group, and of each topic."""
    error = ErrorCode.none
    if not _may_write(access, body):
        error = ID_FAILED
    elif not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        error = ErrorCode.group_authorization_failed
    if error:
        return refused(_commit_refused(tuple(enumerate(body.topics)), body.topic_ids, error))
    check = topic_check(access, Operation.READ, image.topics_by_id, body.topic_ids)
    allowed, others = parted(enumerate(body.topics), check)
    if not others:
        return Screened(body)
    no = _commit_refused(others, body.topic_ids, ErrorCode.topic_authorization_failed)
    if not allowed:
        return refused(no)
    left = body._replace(
        topics=tuple(topic for _, topic in allowed), topic_ids=picked(body.topic_ids, allowed)
    )

    def finish(served: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        ids = None if served.topic_ids is None else (no.topic_ids or ()) + served.topic_ids
        return TxnOffsetCommitResponse(no.topics + served.topics, ids)

    return Screened(left, finish)


def _commit_refused(
    topics: tuple[tuple[int, Any], ...], topic_ids: tuple[bytes, ...] | None, error: ErrorCode
) -> TxnOffsetCommitResponse:
    answers = refused_commit((topic for _, topic in topics), error)
    return TxnOffsetCommitResponse(answers, picked(topic_ids, topics))


def _may_describe(access: Access, transactional_id: str) -> bool:
    return access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def describe(
    access: Access, image: MetadataImage, api_version: int, body: DescribeTransactionsRequest
) -> Screened:
    """Screen DescribeTransactions: DESCRIBE of each transactional id. Topics that the client may not see are
    left out of its transactions."""
    allowed, others = parted(body.transactional_ids, partial(_may_describe, access))
    no = tuple(DescribedTransaction(ID_FAILED, transactional_id) for transactional_id in others)

    def finish(served: DescribeTransactionsResponse | None) -> DescribeTransactionsResponse:
        shown = (
            () if served is None else tuple(_without_hidden_topics(access, t) for t in served.transactions)
        )
        return DescribeTransactionsResponse(shown + no)

    return Screened(body._replace(transactional_ids=allowed) if allowed or not others else None, finish)


def _without_hidden_topics(access: Access, described: DescribedTransaction) -> DescribedTransaction:
    topics = tuple(
        topic for topic in described.topics if access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic[0])
    )
    return described._replace(topics=topics)


def list_transactions(
    access: Access, image: MetadataImage, api_version: int, body: ListTransactionsRequest
) -> Screened:
    """Screen ListTransactions: DESCRIBE of each transactional id that is listed."""

    def finish(served: ListTransactionsResponse) -> ListTransactionsResponse:
        shown = (each for each in served.transactions if _may_describe(access, each.transactional_id))
        return served._replace(transactions=tuple(shown))

    return Screened(body, finish)
