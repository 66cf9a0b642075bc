"""The APIs of transactions between kio's entities and neutral messages, in both directions: the tier answers
them to producers, and its nodes ask them of each other (AddPartitionsToTxn, WriteTxnMarkers)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from actors.protocol import api_keys
from actors.protocol.entities import build, nested, request_class, response_class
from actors.protocol.messages import CommittedPartition
from actors.protocol.transaction_messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicErrors,
    TransactionPartitionErrors,
    TransactionPartitions,
    TxnMarker,
    TxnMarkerErrors,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

BATCHES_SINCE: Final = 4
"""The first version of AddPartitionsToTxn for several transactional ids, which only brokers send."""
ADD_VERSION: Final = 5
"""The version in which nodes ask each other whether a partition is part of a transaction."""
MARKERS_VERSION: Final = 2
"""The version in which nodes have each other write markers."""
TXN_TOPIC_IDS_SINCE: Final = 6
"""The first version of TxnOffsetCommit with topic ids in the place of names (KIP-1319)."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_ZERO_ID: Final = bytes(16)

# Requests that come in.


def init_producer_id(entity: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        entity.transactional_id or "",
        entity.transaction_timeout // _MILLISECOND,
        getattr(entity, "producer_id", -1),
        getattr(entity, "producer_epoch", -1),
    )


def add_partitions(entity: Any) -> AddPartitionsToTxnRequest:
    if hasattr(entity, "transactions"):
        return AddPartitionsToTxnRequest(
            tuple(
                TransactionPartitions(
                    each.transactional_id,
                    each.producer_id,
                    each.producer_epoch,
                    _numbers(each.topics),
                    each.verify_only,
                )
                for each in entity.transactions
            )
        )
    only = TransactionPartitions(
        entity.v3_and_below_transactional_id,
        entity.v3_and_below_producer_id,
        entity.v3_and_below_producer_epoch,
        _numbers(entity.v3_and_below_topics),
    )
    return AddPartitionsToTxnRequest((only,))


def _numbers(topics: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((topic.name, topic.partitions) for topic in topics)


def add_offsets(entity: Any) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        entity.transactional_id, entity.producer_id, entity.producer_epoch, entity.group_id
    )


def end(entity: Any) -> EndTxnRequest:
    return EndTxnRequest(entity.transactional_id, entity.producer_id, entity.producer_epoch, entity.committed)


def offset_commit(entity: Any) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        entity.transactional_id,
        entity.group_id,
        entity.producer_id,
        entity.producer_epoch,
        tuple(
            (getattr(topic, "name", ""), tuple(map(committed_partition, topic.partitions)))
            for topic in entity.topics
        ),
        # From version 6 on the schema calls it what it has been all along.
        getattr(entity, "generation_id_or_member_epoch", getattr(entity, "generation_id", -1)),
        getattr(entity, "member_id", ""),
        getattr(entity, "group_instance_id", None),
        topic_ids(entity, TXN_TOPIC_IDS_SINCE),
    )


def topic_ids(entity: Any, since_version: int) -> tuple[bytes, ...] | None:
    """Return the topic ids that stand in the place of names from a version of the API on; None below."""
    if entity.__version__ < since_version or entity.topics is None:
        return None
    return tuple(id_bytes(topic.topic_id) for topic in entity.topics)


def id_bytes(topic_id: UUID | None) -> bytes:
    """Return a topic id as 16 bytes; kio has None for zeros."""
    return _ZERO_ID if topic_id is None else topic_id.bytes


def committed_partition(partition: Any) -> CommittedPartition:
    """Return a committed partition of TxnOffsetCommit or OffsetCommit."""
    return CommittedPartition(
        partition.partition_index,
        partition.committed_offset,
        getattr(partition, "committed_leader_epoch", -1),
        partition.committed_metadata,
    )


def write_markers(entity: Any) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        tuple(
            TxnMarker(
                marker.producer_id,
                marker.producer_epoch,
                marker.transaction_result,
                tuple((topic.name, topic.partition_indexes) for topic in marker.topics),
                marker.coordinator_epoch,
                getattr(marker, "transaction_version", 0),
            )
            for marker in entity.markers
        )
    )


def describe(entity: Any) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(entity.transactional_ids)


def list_transactions(entity: Any) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        entity.state_filters,
        entity.producer_id_filters,
        getattr(entity, "duration_filter", -1),
        getattr(entity, "transactional_id_pattern", None),
    )


# Answers that go out.


def describe_answer(api_version: int, body: DescribeTransactionsResponse) -> Any:
    state_class = nested(api_keys.DESCRIBE_TRANSACTIONS, api_version, "TransactionState")
    topic_class = nested(api_keys.DESCRIBE_TRANSACTIONS, api_version, "TopicData")
    states = tuple(
        build(
            state_class,
            **each._asdict()
            | {
                "transaction_timeout": timedelta(milliseconds=each.transaction_timeout_ms),
                "transaction_start_time": _EPOCH + timedelta(milliseconds=each.transaction_start_time_ms),
                "topics": tuple(build(topic_class, topic=t, partitions=ps) for t, ps in each.topics),
            },
        )
        for each in body.transactions
    )
    return build(response_class(api_keys.DESCRIBE_TRANSACTIONS, api_version), transaction_states=states)


def list_answer(api_version: int, body: ListTransactionsResponse) -> Any:
    state_class = nested(api_keys.LIST_TRANSACTIONS, api_version, "TransactionState")
    return build(
        response_class(api_keys.LIST_TRANSACTIONS, api_version),
        error_code=body.error_code,
        unknown_state_filters=body.unknown_state_filters,
        transaction_states=tuple(build(state_class, **each._asdict()) for each in body.transactions),
    )


def init_producer_id_answer(api_version: int, body: InitProducerIdResponse) -> Any:
    return build(response_class(api_keys.INIT_PRODUCER_ID, api_version), **body._asdict())


def add_partitions_answer(api_version: int, body: AddPartitionsToTxnResponse) -> Any:
    top = response_class(api_keys.ADD_PARTITIONS_TO_TXN, api_version)
    if api_version < BATCHES_SINCE:
        [only] = body.results
        return build(top, results_by_topic_v3_and_below=_topic_results(api_version, only.topics))
    result_class = nested(api_keys.ADD_PARTITIONS_TO_TXN, api_version, "AddPartitionsToTxnResult")
    results = tuple(
        build(
            result_class,
            transactional_id=each.transactional_id,
            topic_results=_topic_results(api_version, each.topics),
        )
        for each in body.results
    )
    return build(top, error_code=body.error_code, results_by_transaction=results)


def _topic_results(api_version: int, topics: TopicErrors) -> Any:
    api_key = api_keys.ADD_PARTITIONS_TO_TXN
    topic_class = nested(api_key, api_version, "AddPartitionsToTxnTopicResult")
    partition_class = nested(api_key, api_version, "AddPartitionsToTxnPartitionResult")
    return tuple(
        build(
            topic_class,
            name=topic,
            results_by_partition=tuple(
                build(partition_class, partition_index=number, partition_error_code=error)
                for number, error in numbers
            ),
        )
        for topic, numbers in topics
    )


def add_offsets_answer(api_version: int, body: AddOffsetsToTxnResponse) -> Any:
    return build(response_class(api_keys.ADD_OFFSETS_TO_TXN, api_version), error_code=body.error_code)


def end_answer(api_version: int, body: EndTxnResponse) -> Any:
    return build(response_class(api_keys.END_TXN, api_version), **body._asdict())


def offset_commit_answer(api_version: int, body: TxnOffsetCommitResponse) -> Any:
    topic_class = nested(api_keys.TXN_OFFSET_COMMIT, api_version, "TxnOffsetCommitResponseTopic")
    partition_class = nested(api_keys.TXN_OFFSET_COMMIT, api_version, "TxnOffsetCommitResponsePartition")
    top = response_class(api_keys.TXN_OFFSET_COMMIT, api_version)
    return build(top, topics=_with_errors(topic_class, partition_class, body.topics, body.topic_ids))


def _with_errors(
    topic_class: Any, partition_class: Any, topics: TopicErrors, ids: tuple[bytes, ...] | None = None
) -> Any:
    return tuple(
        build(
            topic_class,
            name=topic,
            topic_id=None if topic_id == _ZERO_ID else UUID(bytes=topic_id),
            partitions=tuple(
                build(partition_class, partition_index=number, error_code=error) for number, error in numbers
            ),
        )
        for topic_id, (topic, numbers) in zip(ids or (_ZERO_ID,) * len(topics), topics, strict=True)
    )


def write_markers_answer(api_version: int, body: WriteTxnMarkersResponse) -> Any:
    api_key = api_keys.WRITE_TXN_MARKERS
    marker_class = nested(api_key, api_version, "WritableTxnMarkerResult")
    topic_class = nested(api_key, api_version, "WritableTxnMarkerTopicResult")
    partition_class = nested(api_key, api_version, "WritableTxnMarkerPartitionResult")
    return build(
        response_class(api_key, api_version),
        markers=tuple(
            build(
                marker_class,
                producer_id=marker.producer_id,
                topics=_with_errors(topic_class, partition_class, marker.topics),
            )
            for marker in body.markers
        ),
    )


# What one node asks of another.


def add_partitions_entity(api_version: int, body: AddPartitionsToTxnRequest) -> Any:
    """Return kio's AddPartitionsToTxn request of version 4 or later."""
    api_key = api_keys.ADD_PARTITIONS_TO_TXN
    topic_class = nested(api_key, api_version, "AddPartitionsToTxnTopic", "request")
    transaction_class = nested(api_key, api_version, "AddPartitionsToTxnTransaction", "request")
    transactions = tuple(
        build(
            transaction_class,
            **(
                each._asdict()
                | {"topics": tuple(build(topic_class, name=t, partitions=ps) for t, ps in each.topics)}
            ),
        )
        for each in body.transactions
    )
    return build(request_class(api_key, api_version), transactions=transactions)


def added_partitions(entity: Any) -> AddPartitionsToTxnResponse:
    """Return the answer that kio's AddPartitionsToTxn response is."""
    results = tuple(
        TransactionPartitionErrors(
            each.transactional_id,
            tuple(
                (
                    topic.name,
                    tuple((p.partition_index, p.partition_error_code) for p in topic.results_by_partition),
                )
                for topic in each.topic_results
            ),
        )
        for each in entity.results_by_transaction
    )
    return AddPartitionsToTxnResponse(results, entity.error_code)


def write_markers_entity(api_version: int, body: WriteTxnMarkersRequest) -> Any:
    """Return kio's WriteTxnMarkers request."""
    api_key = api_keys.WRITE_TXN_MARKERS
    marker_class = nested(api_key, api_version, "WritableTxnMarker", "request")
    topic_class = nested(api_key, api_version, "WritableTxnMarkerTopic", "request")
    markers = tuple(
        build(
            marker_class,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.committed,
            topics=tuple(build(topic_class, name=t, partition_indexes=ps) for t, ps in marker.topics),
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        for marker in body.markers
    )
    return build(request_class(api_key, api_version), markers=markers)


def written_markers(entity: Any) -> WriteTxnMarkersResponse:
    """Return the answer that kio's WriteTxnMarkers response is."""
    return WriteTxnMarkersResponse(
        tuple(
            TxnMarkerErrors(
                marker.producer_id,
                tuple(
                    (topic.name, tuple((p.partition_index, p.error_code) for p in topic.partitions))
                    for topic in marker.topics
                ),
            )
            for marker in entity.markers
        )
    )
