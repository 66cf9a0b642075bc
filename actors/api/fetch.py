"""Fetch whole batches: at once if there is enough, else when there is, else when the client's wait is over.

Every fetch is a full one: the answer's session id is 0, which clients take as "no sessions here" (KIP-227).
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.data import NO_LEADER_EPOCH, NO_OFFSET, READ_COMMITTED, check_leader_epoch
from actors.catalog import codec
from actors.protocol.api_keys import FETCH
from actors.protocol.header import Header
from actors.topics.errors import LogError
from actors.topics.partition_log import LEADER_EPOCH
from actors.topics.transactions import AbortedTransaction
from actors.topics.waiting import PartitionKey

FETCH_BYTES_MAX = 55 * 1024 * 1024
"""The most bytes that one answer holds, save for its first batch: Kafka's `fetch.max.bytes`."""
_CURRENT_LEADER_SINCE = 12


class _Read(NamedTuple):
    """What one partition gives now."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    records: bytes = b""
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    aborted: tuple[AbortedTransaction, ...] | None = None
    """The aborted transactions among the records; None for a consumer that reads uncommitted records."""
    log_start_offset: int = NO_OFFSET
    leader_id: int = -1
    """The leader of the partition, told only with NOT_LEADER_OR_FOLLOWER; -1: not told."""


class _ReadTopics(NamedTuple):
    topics: list[tuple[str, list[_Read]]]
    keys: list[PartitionKey]
    """The partitions that are worth waiting for."""
    size_bytes: int
    failed: bool


class _Room(NamedTuple):
    """What is left of the answer for the next partition."""

    bytes_left: int
    at_least_one: bool
    """Whether nothing was read yet: then the first batch is given whatever its size (KIP-74)."""


async def fetch(context: BrokerContext, header: Header, entity: Any) -> Any:
    version = header.api_version
    if version >= 7 and entity.session_id != 0:
        return codec.build(
            codec.response_class(FETCH, version),
            error_code=ErrorCode.fetch_session_id_not_found,
            session_id=0,
            responses=(),
        )
    loop = asyncio.get_running_loop()
    # A client that went away is noticed when its connection is idle for too long: no fetch waits longer.
    wait_s = min(entity.max_wait.total_seconds(), context.settings.connections_max_idle_ms / 1_000)
    deadline = loop.time() + wait_s
    bytes_max = min(entity.max_bytes, FETCH_BYTES_MAX)
    while True:
        read = _read_topics(context, entity, bytes_max)
        missing_bytes = min(entity.min_bytes, bytes_max) - read.size_bytes
        left_s = deadline - loop.time()
        if missing_bytes <= 0 or left_s <= 0 or read.failed or not read.keys:
            return _answer(version, read)
        await context.logs.waiters.wait(read.keys, missing_bytes, left_s)


def _read_topics(context: BrokerContext, entity: Any, bytes_max: int) -> _ReadTopics:
    topics: list[tuple[str, list[_Read]]] = []
    keys: list[PartitionKey] = []
    size_bytes, failed = 0, False
    committed_only = entity.isolation_level == READ_COMMITTED
    for topic in entity.topics:
        reads: list[_Read] = []
        for partition in topic.partitions:
            try:
                room = _Room(bytes_max - size_bytes, at_least_one=size_bytes == 0)
                read = _read_partition(context, topic.topic, partition, room, committed_only)
                keys.append((context.image.topics[topic.topic].topic_id, partition.partition))
            except LogError as error:
                read = _refused(context, topic.topic, partition.partition, error.error_code)
                failed = True
            size_bytes += len(read.records)
            reads.append(read)
        topics.append((topic.topic, reads))
    return _ReadTopics(topics, keys, size_bytes, failed)


def _read_partition(
    context: BrokerContext, name: str, partition: Any, room: _Room, committed_only: bool
) -> _Read:
    """Read what one partition gives now. Raises LogError."""
    check_leader_epoch(getattr(partition, "current_leader_epoch", NO_LEADER_EPOCH))
    topic = context.topic_led_here(name, partition.partition)
    log = context.logs.log(topic, partition.partition)
    bytes_max = min(partition.partition_max_bytes, room.bytes_left)
    stable_offset = log.stable_offset
    records, next_offset = log.read_before(
        stable_offset if committed_only else log.end_offset,
        partition.fetch_offset,
        bytes_max,
        at_least_one=room.at_least_one,
    )
    aborted = log.transactions.aborted(partition.fetch_offset, next_offset) if committed_only else None
    return _Read(
        partition.partition,
        ErrorCode.none,
        records,
        log.end_offset,
        stable_offset,
        aborted,
        log.log_start_offset,
    )


def _refused(context: BrokerContext, name: str, partition: int, error_code: ErrorCode) -> _Read:
    leader_id = -1
    if error_code == ErrorCode.not_leader_or_follower:
        leader_id = context.image.topics[name].partition_leaders[partition]
    return _Read(partition, error_code, leader_id=leader_id)


def _answer(version: int, read: _ReadTopics) -> Any:
    topic_class = codec.nested(FETCH, version, "FetchableTopicResponse")
    return codec.build(
        codec.response_class(FETCH, version),
        error_code=ErrorCode.none,
        session_id=0,
        responses=tuple(
            codec.build(
                topic_class, topic=name, partitions=tuple(_partition(version, each) for each in reads)
            )
            for name, reads in read.topics
        ),
    )


def _partition(version: int, read: _Read) -> Any:
    fields: dict[str, Any] = {}
    if version >= _CURRENT_LEADER_SINCE and read.leader_id >= 0:
        # The answer tells whom to ask instead, without a Metadata request (KIP-595, KIP-951).
        leader_class = codec.nested(FETCH, version, "LeaderIdAndEpoch")
        fields["current_leader"] = codec.build(
            leader_class, leader_id=read.leader_id, leader_epoch=LEADER_EPOCH
        )
    return codec.build(
        codec.nested(FETCH, version, "PartitionData"),
        partition_index=read.partition,
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=_aborted(version, read),
        records=read.records,
        **fields,
    )


def _aborted(version: int, read: _Read) -> Any:
    if read.aborted is None:
        return None
    aborted_class = codec.nested(FETCH, version, "AbortedTransaction")
    return tuple(
        codec.build(aborted_class, producer_id=each.producer_id, first_offset=each.first_offset)
        for each in read.aborted
    )
