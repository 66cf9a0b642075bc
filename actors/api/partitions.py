"""What administrators ask of partitions: DescribeTopicPartitions, DescribeProducers, DescribeLogDirs and
ElectLeaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.metadata import partition_fields
from actors.api.partition_answers import topic_answers
from actors.api.topic_ids import wire_topic_id
from actors.catalog import codec
from actors.ground.image import TopicImage
from actors.ground.limits import DESCRIBED_PARTITIONS_MAX
from actors.ground.topic_names import name_problem
from actors.protocol.api_keys import (
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
)
from actors.protocol.header import Header
from actors.protocol.metadata_entities import NO_AUTHORIZED_OPERATIONS
from actors.topics.errors import LogError
from actors.topics.logs import LOGS_BYTES_MAX

LOG_DIR = "memory"
"""What DescribeLogDirs calls the one place where a broker keeps the records of its topics."""
PREFERRED = 0
UNCLEAN = 1
"""A type of election (KIP-460) in which any replica may lead, as PREFERRED is one for the first replica."""


# DescribeTopicPartitions (KIP-966).


class _Described(NamedTuple):
    topic: Any
    """The entity of a topic with the partitions that fit, or with its error."""
    partitions: int
    next_partition: int | None
    """The first partition of the topic that did not fit; None: all did."""


async def describe_topic_partitions(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer with topics in the order of their names, each once, at most so many partitions as are asked
    for, and with a cursor to what did not fit."""
    if _has_wrong_cursor(entity):
        return _all_refused(header, entity, ErrorCode.invalid_request)
    every = not entity.topics
    after = "" if entity.cursor is None else entity.cursor.topic_name
    names = context.image.topics if every else (topic.name for topic in entity.topics)
    asked = sorted({name for name in names if name >= after})
    if any(name not in context.image.topics and name_problem(name) is not None for name in asked):
        # Kafka looks unknown names up as topics, and fails as a whole where a name cannot be one.
        return _all_refused(header, entity, ErrorCode.unknown_server_error)
    room = max(min(entity.response_partition_limit, DESCRIBED_PARTITIONS_MAX), 1)
    topics: list[Any] = []
    cursor = None
    for name in asked:
        first = entity.cursor.partition_index if entity.cursor is not None and name == after else 0
        if room <= 0:
            cursor = (name, first)
            break
        described = _described_topic(context, header, name, (first, room))
        topics.append(described.topic)
        room -= described.partitions
        if described.next_partition is not None:
            cursor = (name, described.next_partition)
            break
    return codec.build(
        codec.response_class(DESCRIBE_TOPIC_PARTITIONS, header.api_version),
        topics=tuple(topics),
        next_cursor=None if cursor is None else _cursor(header, *cursor),
    )


def _has_wrong_cursor(entity: Any) -> bool:
    """Return whether the cursor names a topic that is not asked for, or a partition that cannot be."""
    if entity.cursor is None:
        return False
    names = {topic.name for topic in entity.topics}
    return (bool(names) and entity.cursor.topic_name not in names) or entity.cursor.partition_index < 0


def _cursor(header: Header, name: str, partition: int) -> Any:
    cursor_class = codec.nested(DESCRIBE_TOPIC_PARTITIONS, header.api_version, "Cursor")
    return codec.build(cursor_class, topic_name=name, partition_index=partition)


def _all_refused(header: Header, entity: Any, error: ErrorCode) -> Any:
    topics = tuple(_topic(header, topic.name, error) for topic in entity.topics)
    response_class = codec.response_class(DESCRIBE_TOPIC_PARTITIONS, header.api_version)
    return codec.build(response_class, topics=topics, next_cursor=None)


def _described_topic(
    context: BrokerContext, header: Header, name: str, window: tuple[int, int]
) -> _Described:
    """Describe a topic's partitions in a window: the first of them, and how many at most."""
    topic = context.image.topics.get(name)
    if topic is None:
        return _Described(_topic(header, name, ErrorCode.unknown_topic_or_partition), 0, None)
    first, room = window
    end = min(first + room, topic.partition_count)
    partitions = tuple(
        _partition(context, header, topic, partition) for partition in range(min(first, end), end)
    )
    return _Described(
        _topic(header, name, ErrorCode.none, topic, partitions),
        len(partitions),
        end if end < topic.partition_count else None,
    )


def _topic(
    header: Header,
    name: str,
    error: ErrorCode,
    topic: TopicImage | None = None,
    partitions: tuple[Any, ...] = (),
) -> Any:
    return codec.build(
        codec.nested(DESCRIBE_TOPIC_PARTITIONS, header.api_version, "DescribeTopicPartitionsResponseTopic"),
        error_code=error,
        name=name,
        topic_id=None if topic is None else wire_topic_id(topic.topic_id),
        is_internal=topic is not None and topic.internal,
        partitions=partitions,
        topic_authorized_operations=NO_AUTHORIZED_OPERATIONS,
    )


def _partition(context: BrokerContext, header: Header, topic: TopicImage, partition: int) -> Any:
    leader = topic.partition_leaders[partition]
    node = context.image.nodes.get(leader)
    return codec.build(
        codec.nested(
            DESCRIBE_TOPIC_PARTITIONS, header.api_version, "DescribeTopicPartitionsResponsePartition"
        ),
        **partition_fields(partition, leader, node is not None and node.alive),
        eligible_leader_replicas=(),
        last_known_elr=(),
    )


# DescribeProducers (KIP-664).


async def describe_producers(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer with the producers whose batches the asked partitions' leader remembers."""
    return codec.build(
        codec.response_class(DESCRIBE_PRODUCERS, header.api_version),
        topics=topic_answers(
            codec.nested(DESCRIBE_PRODUCERS, header.api_version, "TopicResponse"),
            ((topic.name, topic.partition_indexes) for topic in entity.topics),
            lambda name, partition: _producers_of(context, header, name, partition),
        ),
    )


def _producers_of(context: BrokerContext, header: Header, name: str, partition: int) -> Any:
    error_code, message = ErrorCode.none, None
    producers: tuple[Any, ...] = ()
    wrong = name_problem(name)
    try:
        if wrong is not None:
            raise LogError(ErrorCode.invalid_topic_exception, wrong)
        topic = context.topic_led_here(name, partition)
        state_class = codec.nested(DESCRIBE_PRODUCERS, header.api_version, "ProducerState")
        producers = tuple(
            codec.build(
                state_class,
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp_ms,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.current_txn_start_offset,
            )
            for state in ([] if topic.internal else context.logs.log(topic, partition).active_producers())
        )
    except LogError as error:
        # Kafka has no words for a partition that is not there, or not led here, in a topic that is.
        error_code = error.error_code
        message = None if name in context.image.topics else error.message
    return codec.build(
        codec.nested(DESCRIBE_PRODUCERS, header.api_version, "PartitionResponse"),
        partition_index=partition,
        error_code=error_code,
        error_message=message,
        active_producers=producers,
    )


# DescribeLogDirs.


async def describe_log_dirs(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer with the sizes of the logs that this broker has, as if its memory were a directory."""
    version = header.api_version
    partition_class = codec.nested(DESCRIBE_LOG_DIRS, version, "DescribeLogDirsPartition")
    topics = topic_answers(
        codec.nested(DESCRIBE_LOG_DIRS, version, "DescribeLogDirsTopic"),
        _logs_asked(context, entity),
        lambda name, partition: codec.build(
            partition_class,
            partition_index=partition,
            partition_size=context.partition_bytes(context.image.topics[name], partition),
            offset_lag=0,
            is_future_key=False,
        ),
    )
    result = codec.build(
        codec.nested(DESCRIBE_LOG_DIRS, version, "DescribeLogDirsResult"),
        error_code=ErrorCode.none,
        log_dir=LOG_DIR,
        topics=topics,
        total_bytes=LOGS_BYTES_MAX,
        usable_bytes=max(LOGS_BYTES_MAX - context.logs.size_bytes, 0),
        is_cordoned=False,
    )
    response_class = codec.response_class(DESCRIBE_LOG_DIRS, version)
    return codec.build(response_class, error_code=ErrorCode.none, results=(result,))


def _logs_asked(context: BrokerContext, entity: Any) -> Iterator[tuple[str, list[int]]]:
    """Yield the topics asked for (null: all) with the partitions of them that this broker leads."""
    asked: dict[str, set[int] | None] = {}
    if entity.topics is None:
        asked = dict.fromkeys(context.image.topics)
    else:
        for each in entity.topics:
            asked[each.topic] = {*(asked.get(each.topic) or ()), *each.partitions}
    for name, wanted in asked.items():
        topic = context.image.topics.get(name)
        led = [] if topic is None else _led_here(context, topic, wanted)
        if led:
            yield name, led


def _led_here(context: BrokerContext, topic: TopicImage, wanted: Iterable[int] | None) -> list[int]:
    chosen = None if wanted is None else set(wanted)
    return [
        partition
        for partition, leader in enumerate(topic.partition_leaders)
        if leader == context.node_id and (chosen is None or partition in chosen)
    ]


# ElectLeaders (KIP-183, KIP-460).


async def elect_leaders(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Elect leaders. A partition of a topic has one replica, so there is nothing to elect. An offsets
    partition, which is a partition of each internal topic, goes to its preferred replica."""
    version = header.api_version
    wrong_type = version >= 1 and entity.election_type not in (PREFERRED, UNCLEAN)
    every = entity.topic_partitions is None
    result_class = codec.nested(ELECT_LEADERS, version, "ReplicaElectionResult")
    results = []
    for name, partitions in _elections_asked(context, entity):
        outcomes = []
        error: ErrorCode
        message: str | None
        for partition in partitions:
            if wrong_type:
                error, message = ErrorCode.invalid_request, f"Unknown election type {entity.election_type}"
            else:
                error, message = await _elected(context, name, partition)
            if not (every and error is ErrorCode.election_not_needed):
                outcomes.append(_outcome(version, partition, error, message))
        results.append(codec.build(result_class, topic=name, partition_result=tuple(outcomes)))
    return codec.build(
        codec.response_class(ELECT_LEADERS, version),
        error_code=ErrorCode.invalid_request if wrong_type and results else ErrorCode.none,
        replica_election_results=tuple(results),
    )


def _elections_asked(context: BrokerContext, entity: Any) -> list[tuple[str, Iterable[int]]]:
    """Return the topics and partitions of a request; null asks for all."""
    if entity.topic_partitions is not None:
        return [(each.topic, each.partitions) for each in entity.topic_partitions]
    return [(topic.name, range(topic.partition_count)) for topic in context.image.topics.values()]


async def _elected(context: BrokerContext, name: str, partition: int) -> tuple[ErrorCode, str | None]:
    topic = context.image.topics.get(name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, f"No such topic as {name}"
    if not 0 <= partition < topic.partition_count:
        return ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{partition}"
    if topic.internal:
        error = await context.elect(partition)
    else:
        node = context.image.nodes.get(topic.partition_leaders[partition])
        is_led = node is not None and node.alive
        error = ErrorCode.election_not_needed if is_led else ErrorCode.preferred_leader_not_available
    return error, _ELECTION_MESSAGES.get(error)


_ELECTION_MESSAGES = {
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.preferred_leader_not_available: "The preferred leader was not available.",
}


def _outcome(version: int, partition: int, error: ErrorCode, message: str | None) -> Any:
    return codec.build(
        codec.nested(ELECT_LEADERS, version, "PartitionResult"),
        partition_id=partition,
        error_code=error,
        error_message=message,
    )
