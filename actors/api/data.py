"""Tell about the offsets of logs, and delete records: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

Produce is in `produce`; Fetch, which waits, is in `fetch`.
"""

from __future__ import annotations

import sys
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.partition_answers import topic_answers
from actors.catalog import codec
from actors.protocol.api_keys import DELETE_RECORDS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from actors.protocol.header import Header
from actors.topics.errors import LogError
from actors.topics.leader_epochs import NO_LEADER_EPOCH, NO_OFFSET
from actors.topics.partition_log import FoundOffset, PartitionLog

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""The isolation levels of consumers (KIP-98)."""
NO_TIMESTAMP = -1
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""A timestamp of ListOffsets that is a question of its own, as LATEST and EARLIEST are."""
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
"""A question about tiered storage, as LATEST_TIERED is: a broker that has none knows of no such offset, and
all its offsets are local (KIP-405, KIP-1005, KIP-1023)."""
_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Question -> the first version of ListOffsets that may ask it."""
_NEVER = sys.maxsize


async def list_offsets(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer ListOffsets. A topic that stands in the request twice is answered once, and a partition that is
    asked about twice is refused."""
    version = header.api_version
    topics: dict[str, dict[int, Any]] = {}
    twice: set[tuple[str, int]] = set()
    for topic in entity.topics:
        asked = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            if partition.partition_index in asked:
                twice.add((topic.name, partition.partition_index))
            asked[partition.partition_index] = partition
    await context.ready((name, index) for name, asked in topics.items() for index in asked)
    level = getattr(entity, "isolation_level", READ_UNCOMMITTED)

    def answer(name: str, partition: Any) -> Any:
        asked_twice = (name, partition.partition_index) in twice
        return _listed(context, version, name, partition, None if asked_twice else level)

    return codec.build(
        codec.response_class(LIST_OFFSETS, version),
        topics=topic_answers(
            codec.nested(LIST_OFFSETS, version, "ListOffsetsTopicResponse"),
            ((name, asked.values()) for name, asked in topics.items()),
            answer,
        ),
    )


def _listed(
    context: BrokerContext, version: int, name: str, partition: Any, isolation_level: int | None
) -> Any:
    """Return what is told of one partition. `isolation_level` is None if it is asked about twice."""
    error_code, found, leader_epoch = ErrorCode.none, None, NO_LEADER_EPOCH
    try:
        if isolation_level is None:
            raise LogError(ErrorCode.invalid_request)
        log, found = _offset_at(context, version, name, partition, isolation_level)
        leader_epoch = NO_LEADER_EPOCH if found is None else log.epochs.at(found.offset)
    except LogError as error:
        error_code = error.error_code
    return codec.build(
        codec.nested(LIST_OFFSETS, version, "ListOffsetsPartitionResponse"),
        partition_index=partition.partition_index,
        error_code=error_code,
        timestamp=NO_TIMESTAMP if found is None else found.timestamp_ms,
        offset=NO_OFFSET if found is None else found.offset,
        leader_epoch=leader_epoch,
    )


def _offset_at(
    context: BrokerContext, version: int, name: str, partition: Any, isolation_level: int
) -> tuple[PartitionLog, FoundOffset | None]:
    """Return the log and the offset in it that ListOffsets asks for; None if there is none. Raises
    LogError."""
    timestamp = partition.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, _NEVER):
        raise LogError(ErrorCode.unsupported_version)
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise LogError(ErrorCode.unknown_server_error)
    epoch = getattr(partition, "current_leader_epoch", NO_LEADER_EPOCH)
    log = _log(context, name, partition.partition_index, epoch)
    return log, _found(log, timestamp, isolation_level)


def _found(log: PartitionLog, timestamp: int, isolation_level: int) -> FoundOffset | None:
    stable_offset = log.stable_offset if isolation_level == READ_COMMITTED else log.end_offset
    match timestamp:
        case timestamp if timestamp == LATEST:
            return FoundOffset(stable_offset, NO_TIMESTAMP)
        case timestamp if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return FoundOffset(log.log_start_offset, NO_TIMESTAMP)
        case timestamp if timestamp == MAX_TIMESTAMP:
            return log.offset_of_max_timestamp()
        case timestamp if timestamp < 0:
            return None
        case timestamp:
            found = log.offset_for_time(timestamp)
            return None if found is not None and found.offset >= stable_offset else found


def _log(context: BrokerContext, name: str, partition: int, current_leader_epoch: int) -> PartitionLog:
    """Return the log of a partition that this broker leads, if the client knows its leader epoch. Raises
    LogError."""
    topic = context.known_topic(name, partition)
    context.check_leader_epoch(topic, partition, current_leader_epoch)
    return context.log(context.topic_led_here(name, partition), partition)


async def offset_for_leader_epoch(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer up to which offset a log may have records of an epoch (KIP-320)."""
    version = header.api_version
    await context.ready((topic.topic, each.partition) for topic in entity.topics for each in topic.partitions)
    return codec.build(
        codec.response_class(OFFSET_FOR_LEADER_EPOCH, version),
        topics=topic_answers(
            codec.nested(OFFSET_FOR_LEADER_EPOCH, version, "OffsetForLeaderTopicResult"),
            ((topic.topic, topic.partitions) for topic in entity.topics),
            lambda name, partition: _epoch_end(context, version, name, partition),
        ),
    )


def _epoch_end(context: BrokerContext, version: int, name: str, partition: Any) -> Any:
    error_code, end = ErrorCode.none, (NO_LEADER_EPOCH, NO_OFFSET)
    try:
        log = _log(context, name, partition.partition, partition.current_leader_epoch)
        end = log.end_of_epoch(partition.leader_epoch)
    except LogError as error:
        error_code = error.error_code
    return codec.build(
        codec.nested(OFFSET_FOR_LEADER_EPOCH, version, "EpochEndOffset"),
        error_code=error_code,
        partition=partition.partition,
        leader_epoch=end[0],
        end_offset=end[1],
    )


async def delete_records(context: BrokerContext, header: Header, entity: Any) -> Any:
    version = header.api_version
    return codec.build(
        codec.response_class(DELETE_RECORDS, version),
        topics=topic_answers(
            codec.nested(DELETE_RECORDS, version, "DeleteRecordsTopicResult"),
            ((topic.name, topic.partitions) for topic in entity.topics),
            lambda name, partition: _deleted(context, version, name, partition),
        ),
    )


def _deleted(context: BrokerContext, version: int, name: str, partition: Any) -> Any:
    error_code, low_watermark = ErrorCode.none, NO_OFFSET
    try:
        if context.known_topic(name, partition.partition_index).internal:
            raise LogError(ErrorCode.invalid_topic_exception)
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
