"""Take records in and tell about them: Produce, ListOffsets, DeleteRecords. Fetch, which waits, is in
`fetch`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.transactions import Verdict, verify_produced
from actors.catalog import codec
from actors.protocol.api_keys import DELETE_RECORDS, LIST_OFFSETS, PRODUCE
from actors.protocol.header import Header
from actors.topics.errors import LogError
from actors.topics.logs import Produced
from actors.topics.partition_log import LEADER_EPOCH, Appended, FoundOffset

APPEND = Verdict()
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""The isolation levels of consumers (KIP-98)."""
NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
"""The leader epoch of a client that knows none, or whose version has no place for it."""
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""A timestamp of ListOffsets that is a question of its own, as LATEST and EARLIEST are."""
_ZSTD_SINCE = 7
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


async def produce(context: BrokerContext, header: Header, entity: Any) -> Any | None:
    """Append what a Produce request brings. Return None for acks 0: such a request has no answer."""
    version = header.api_version
    verdicts = await verify_produced(context, entity)
    topic_class = codec.nested(PRODUCE, version, "TopicProduceResponse")
    responses = tuple(
        codec.build(
            topic_class,
            name=topic.name,
            partition_responses=tuple(
                _produced(
                    context,
                    version,
                    topic.name,
                    partition,
                    _verdict(entity) or verdicts.get((topic.name, partition.index), APPEND),
                )
                for partition in topic.partition_data
            ),
        )
        for topic in entity.topic_data
    )
    if entity.acks == 0:
        return None
    return codec.build(codec.response_class(PRODUCE, version), responses=responses)


def _produced(context: BrokerContext, version: int, name: str, partition: Any, verdict: Verdict) -> Any:
    error_code, message, log_start_offset = ErrorCode.none, None, NO_OFFSET
    appended = Appended(NO_OFFSET, None, 0)
    try:
        if verdict.error_code:
            raise LogError(verdict.error_code)
        topic = context.topic_led_here(name, partition.index)
        produced = Produced(partition.records, version >= _ZSTD_SINCE, verdict.guard)
        appended = context.logs.append(topic, partition.index, produced, context.clock_ms())
        log_start_offset = context.logs.log(topic, partition.index).log_start_offset
    except LogError as error:
        error_code, message = error.error_code, error.message
    except OSError as error:
        # The offsets could not be reserved on disk, so none were given out.
        error_code, message = ErrorCode.kafka_storage_error, str(error)
    time_ms = appended.log_append_time_ms
    return codec.build(
        codec.nested(PRODUCE, version, "PartitionProduceResponse"),
        index=partition.index,
        error_code=error_code,
        base_offset=appended.base_offset,
        log_append_time=None if time_ms is None else _EPOCH + datetime.timedelta(milliseconds=time_ms),
        log_start_offset=log_start_offset,
        record_errors=(),
        error_message=message,
    )


def _verdict(entity: Any) -> Verdict | None:
    """Return the verdict on the whole request; None if each partition has its own."""
    return None if entity.acks in (-1, 0, 1) else Verdict(ErrorCode.invalid_required_acks)


async def list_offsets(context: BrokerContext, header: Header, entity: Any) -> Any:
    listed = partial(_listed, context, entity)
    return _answer_each(LIST_OFFSETS, "ListOffsetsTopicResponse", header, entity, listed)


def _answer_each(
    api_key: int, topic_result: str, header: Header, entity: Any, answer: Callable[[int, str, Any], Any]
) -> Any:
    """Return a response of topics and partitions as the request has them; each partition is answered by
    `answer(version, topic, partition)`."""
    version = header.api_version
    topic_class = codec.nested(api_key, version, topic_result)
    return codec.build(
        codec.response_class(api_key, version),
        topics=tuple(
            codec.build(
                topic_class,
                name=topic.name,
                partitions=tuple(answer(version, topic.name, partition) for partition in topic.partitions),
            )
            for topic in entity.topics
        ),
    )


def _listed(context: BrokerContext, entity: Any, version: int, name: str, partition: Any) -> Any:
    error_code, found = ErrorCode.none, None
    committed_only = getattr(entity, "isolation_level", READ_UNCOMMITTED) == READ_COMMITTED
    try:
        check_leader_epoch(getattr(partition, "current_leader_epoch", NO_LEADER_EPOCH))
        found = _offset_at(context, version, name, partition, committed_only=committed_only)
    except LogError as error:
        error_code = error.error_code
    return codec.build(
        codec.nested(LIST_OFFSETS, version, "ListOffsetsPartitionResponse"),
        partition_index=partition.partition_index,
        error_code=error_code,
        timestamp=NO_TIMESTAMP if found is None else found.timestamp_ms,
        offset=NO_OFFSET if found is None else found.offset,
        leader_epoch=NO_LEADER_EPOCH if found is None else LEADER_EPOCH,
    )


def _offset_at(
    context: BrokerContext, version: int, name: str, partition: Any, *, committed_only: bool
) -> FoundOffset | None:
    """Return the offset that ListOffsets asks for; None if no record is that young. Raises LogError."""
    topic = context.topic_led_here(name, partition.partition_index)
    log = context.logs.log(topic, partition.partition_index)
    match partition.timestamp:
        case timestamp if timestamp == LATEST:
            return FoundOffset(log.stable_offset if committed_only else log.end_offset, NO_TIMESTAMP)
        case timestamp if timestamp == EARLIEST:
            return FoundOffset(log.log_start_offset, NO_TIMESTAMP)
        case timestamp if timestamp == MAX_TIMESTAMP and version >= 7:
            return log.offset_of_max_timestamp()
        case timestamp if timestamp < 0:
            raise LogError(ErrorCode.unsupported_version)
        case timestamp:
            found = log.offset_for_time(timestamp)
            is_open = committed_only and found is not None and found.offset >= log.stable_offset
            return None if is_open else found


def check_leader_epoch(current_leader_epoch: int) -> None:
    """Check the leader epoch that a client knows: -1 asks for no check (KIP-320). A log here has one epoch
    only. Raises LogError."""
    if current_leader_epoch > LEADER_EPOCH:
        raise LogError(ErrorCode.unknown_leader_epoch)


async def delete_records(context: BrokerContext, header: Header, entity: Any) -> Any:
    return _answer_each(
        DELETE_RECORDS, "DeleteRecordsTopicResult", header, entity, partial(_deleted, context)
    )


def _deleted(context: BrokerContext, version: int, name: str, partition: Any) -> Any:
    error_code, low_watermark = ErrorCode.none, NO_OFFSET
    try:
        topic = context.topic_led_here(name, partition.partition_index)
        low_watermark = context.logs.delete_records(topic, partition.partition_index, partition.offset)
    except LogError as error:
        error_code = error.error_code
    return codec.build(
        codec.nested(DELETE_RECORDS, version, "DeleteRecordsPartitionResult"),
        partition_index=partition.partition_index,
        low_watermark=low_watermark,
        error_code=error_code,
    )
