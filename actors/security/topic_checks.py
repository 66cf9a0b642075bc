"""Check what a client may ask of topics and their records, as Kafka's brokers do and with their refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.acl import CLUSTER_NAME, Operation, ResourceType
from actors.protocol import entities
from actors.protocol.errors import HangUp
from actors.protocol.followers import follower_of
from actors.protocol.header import Header
from actors.protocol.metadata_entities import (
    NO_AUTHORIZED_OPERATIONS,
    absent_topic,
    has_ids_too_early,
    missing_topics,
)
from actors.security.asking import Asking
from actors.security.screening import Screened, parted

FAILED: Final = ErrorCode.topic_authorization_failed
FAILED_MESSAGE: Final = "Topic authorization failed."
_TOPIC_IDS_OF_DELETION_SINCE: Final = 6
_OPERATIONS_OF_METADATA_SINCE: Final = 8
_REFUSED_AS_A_WHOLE: Final = (ErrorCode.invalid_request, ErrorCode.unknown_server_error)
"""Errors of DescribeTopicPartitions that do not concern the topic that has them."""


def replaced(entity: Any, **fields: Any) -> Any:
    return dataclasses.replace(entity, **fields)


def _by_partition(
    operation: Operation,
    fields: tuple[str, str, str, str],
    classes: tuple[str, str],
    refused_partition: dict[str, Any],
) -> Callable[[Asking, Header, Any], Screened]:
    """Return the check of a request about partitions of topics, each of which needs `operation` on its topic.

    `fields` are the names of the request's topics, a topic's partitions there, the answer's topics, and a
    topic's partitions there; `classes` those of the answer's topic and partition.
    """
    asked_topics, asked_partitions, answered_topics, answered_partitions = fields

    def check(asking: Asking, header: Header, entity: Any) -> Screened:
        allowed, others = parted(getattr(entity, asked_topics), lambda topic: _may(asking, operation, topic))
        if not others:
            return Screened(entity)
        topic_class, partition_class = (
            entities.nested(header.api_key, header.api_version, name) for name in classes
        )
        no = tuple(
            entities.build(
                topic_class,
                name=_name(topic),
                topic=_name(topic),
                topic_id=getattr(topic, "topic_id", None),
                **{
                    answered_partitions: tuple(
                        entities.build(
                            partition_class,
                            partition_index=_index(partition),
                            index=_index(partition),
                            partition=_index(partition),
                            error_code=FAILED,
                            **refused_partition,
                        )
                        for partition in getattr(topic, asked_partitions)
                    )
                },
            )
            for topic in others
        )

        def finish(served: Any) -> Any:
            if served is None:
                response_class = entities.response_class(header.api_key, header.api_version)
                top = {"error_code": ErrorCode.none, "session_id": 0}
                return entities.build(response_class, **top, **{answered_topics: no})
            return replaced(served, **{answered_topics: getattr(served, answered_topics) + no})

        return Screened(replaced(entity, **{asked_topics: allowed}) if allowed else None, finish)

    return check


def _may(asking: Asking, operation: Operation, topic: Any) -> bool:
    """Return whether the client may do this to a topic of a request. A topic id that nobody knows is refused
    by who serves the request."""
    name = _name(topic)
    if name is None:
        known = None if topic.topic_id is None else asking.image.topics_by_id.get(topic.topic_id.bytes)
        if known is None:
            return True
        name = known.name
    return asking.may_topic(operation, name)


def _name(topic: Any) -> str | None:
    """Return what a request calls a topic; None if it has the topic's id instead."""
    name: str | None = topic.topic if hasattr(topic, "topic") else getattr(topic, "name", None)
    return name


def _index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    for field in ("partition_index", "index", "partition"):
        if hasattr(partition, field):
            return int(getattr(partition, field))
    raise AssertionError(f"{partition} has no index")


_produce = _by_partition(
    Operation.WRITE,
    ("topic_data", "partition_data", "responses", "partition_responses"),
    ("TopicProduceResponse", "PartitionProduceResponse"),
    {
        "base_offset": -1,
        "log_append_time": None,
        "log_start_offset": -1,
        "record_errors": (),
        "error_message": None,
    },
)
list_offsets = _by_partition(
    Operation.DESCRIBE,
    ("topics", "partitions", "topics", "partitions"),
    ("ListOffsetsTopicResponse", "ListOffsetsPartitionResponse"),
    {"timestamp": -1, "offset": -1, "leader_epoch": -1},
)
delete_records = _by_partition(
    Operation.DELETE,
    ("topics", "partitions", "topics", "partitions"),
    ("DeleteRecordsTopicResult", "DeleteRecordsPartitionResult"),
    {"low_watermark": -1},
)


describe_producers = _by_partition(
    Operation.READ,
    ("topics", "partition_indexes", "topics", "partitions"),
    ("TopicResponse", "PartitionResponse"),
    {"error_message": FAILED_MESSAGE, "active_producers": ()},
)


offset_for_leader_epoch = _by_partition(
    Operation.DESCRIBE,
    ("topics", "partitions", "topics", "partitions"),
    ("OffsetForLeaderTopicResult", "EpochEndOffset"),
    {"leader_epoch": -1, "end_offset": -1},
)


class RestrictedFetch(NamedTuple):
    """A Fetch request of a client that may not read everything. A session has partitions that no request
    names, so it is for who serves the request to ask, for each topic that is read."""

    entity: Any
    may_read: Callable[[str], bool]
    """Returns whether the client may read the topic of this name."""


def fetch(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen Fetch: READ of each topic; for a broker that follows, to act as a broker."""
    if follower_of(header.api_version, entity) is None:
        return Screened(RestrictedFetch(entity, lambda name: asking.may_topic(Operation.READ, name)))
    if asking.may_cluster(Operation.CLUSTER_ACTION):
        return Screened(entity)
    return Screened(RestrictedFetch(entity, lambda _: False))


def produce(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen Produce. Without acks the connection is closed for a refusal, which the client would not hear of
    otherwise."""
    body, finish = _produce(asking, header, entity)
    if entity.acks == 0 and finish is not None:
        return Screened(body, _hang_up)
    return Screened(body, finish)


def _hang_up(served: Any) -> Any:
    raise HangUp("a Produce request that wants no answer was refused")


def create_topics(asking: Asking, header: Header, entity: Any) -> Screened:
    everywhere = asking.may_cluster(Operation.CREATE)
    allowed, others = parted(
        entity.topics, lambda topic: everywhere or asking.may_topic(Operation.CREATE, topic.name)
    )
    hidden = frozenset(
        topic.name for topic in allowed if not asking.may_topic(Operation.DESCRIBE_CONFIGS, topic.name)
    )
    if not others and not hidden:
        return Screened(entity)
    result_class = entities.nested(header.api_key, header.api_version, "CreatableTopicResult")
    no = tuple(
        entities.build(
            result_class,
            name=topic.name,
            topic_id=None,
            error_code=FAILED,
            error_message="Authorization failed.",
            configs=(),
        )
        for topic in others
    )

    def finish(served: Any) -> Any:
        if served is None:
            return entities.build(entities.response_class(header.api_key, header.api_version), topics=no)
        shown = (_without_configs(topic) if topic.name in hidden else topic for topic in served.topics)
        return replaced(served, topics=(*shown, *no))

    return Screened(replaced(entity, topics=allowed) if allowed else None, finish)


def _without_configs(topic: Any) -> Any:
    """Return the answer about a created topic without its configs, for a client that may not see them
    (KIP-525)."""
    if topic.error_code != ErrorCode.none or not hasattr(topic, "topic_config_error_code"):
        return topic
    return replaced(
        topic, topic_config_error_code=int(FAILED), num_partitions=-1, replication_factor=-1, configs=()
    )


def delete_topics(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen DeleteTopics. If topics are named by id, a name that the client may not see is not told; an
    unknown id is for the controller."""
    by_id = header.api_version >= _TOPIC_IDS_OF_DELETION_SINCE
    field = "topics" if by_id else "topic_names"

    def name_of(topic: Any) -> str | None:
        if not by_id:
            return str(topic)
        if topic.name is not None or topic.topic_id is None:
            return None if topic.name is None else str(topic.name)
        known = asking.image.topics_by_id.get(topic.topic_id.bytes)
        return None if known is None else known.name

    def allowed_to_delete(topic: Any) -> bool:
        name = name_of(topic)
        return name is None or asking.may_topic(Operation.DELETE, name)

    allowed, others = parted(getattr(entity, field), allowed_to_delete)
    if not others:
        return Screened(entity)
    result_class = entities.nested(header.api_key, header.api_version, "DeletableTopicResult")

    def refusal(topic: Any) -> Any:
        name = name_of(topic)
        asked_by_id = by_id and topic.name is None
        if asked_by_id and name is not None and not asking.may_topic(Operation.DESCRIBE, name):
            name = None
        topic_id = topic.topic_id if by_id else None
        return entities.build(
            result_class, name=name, topic_id=topic_id, error_code=FAILED, error_message=FAILED_MESSAGE
        )

    no = tuple(map(refusal, others))

    def finish(served: Any) -> Any:
        responses = no if served is None else served.responses + no
        return entities.build(
            entities.response_class(header.api_key, header.api_version), responses=responses
        )

    return Screened(replaced(entity, **{field: allowed}) if allowed else None, finish)


def create_partitions(asking: Asking, header: Header, entity: Any) -> Screened:
    allowed, others = parted(entity.topics, lambda topic: asking.may_topic(Operation.ALTER, topic.name))
    if not others:
        return Screened(entity)
    result_class = entities.nested(header.api_key, header.api_version, "CreatePartitionsTopicResult")
    no = tuple(
        entities.build(result_class, name=topic.name, error_code=FAILED, error_message=None)
        for topic in others
    )

    def finish(served: Any) -> Any:
        results = no if served is None else served.results + no
        return entities.build(entities.response_class(header.api_key, header.api_version), results=results)

    return Screened(replaced(entity, topics=allowed) if allowed else None, finish)


def metadata(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen Metadata. Topics that may not be seen are left out of "all", and refused if they are named; so
    are topics that would have to be created by a client that may not. An answer may tell what may be done
    (KIP-430)."""
    version = header.api_version
    if has_ids_too_early(version, entity):
        return Screened(entity)
    everything = entity.topics is None or (version == 0 and not entity.topics)
    no: tuple[Any, ...] = ()
    allowed = entity.topics
    if not everything:
        uncreatable = _uncreatable(asking, version, entity)
        allowed, others = parted(
            dict.fromkeys(entity.topics), lambda topic: _is_shown(asking, topic, uncreatable)
        )
        no = tuple(_hidden_topic(version, topic) for topic in others)

    def finish(served: Any) -> Any:
        # Who answers may know topics that are not known here yet: by their ids nobody could look at them.
        topics, hidden = parted(
            served.topics if everything or allowed else (),
            lambda topic: topic.name is None or asking.may_topic(Operation.DESCRIBE, topic.name),
        )
        by_ids = () if everything else tuple(absent_topic(version, None, FAILED, t.topic_id) for t in hidden)
        if version >= _OPERATIONS_OF_METADATA_SINCE and entity.include_topic_authorized_operations:
            topics = tuple(_with_operations(asking, topic) for topic in topics)
        fields: dict[str, Any] = {"topics": topics + by_ids + no}
        if getattr(entity, "include_cluster_authorized_operations", False):
            fields["cluster_authorized_operations"] = cluster_operations(asking)
        return replaced(served, **fields)

    return Screened(entity if everything else replaced(entity, topics=allowed), finish)


def describe_topic_partitions(asking: Asking, header: Header, entity: Any) -> Screened:
    """Screen DescribeTopicPartitions. Topics that may not be seen are left out of "all" and refused if they
    are named; the answer tells what may be done (KIP-430)."""
    everything = not entity.topics
    names = list(asking.image.topics) if everything else [topic.name for topic in entity.topics]
    allowed, others = parted(dict.fromkeys(names), lambda name: asking.may_topic(Operation.DESCRIBE, name))
    if not others:
        return Screened(entity, lambda served: _with_all_operations(asking, served, ()))
    topic_class = entities.nested(header.api_key, header.api_version, "DescribeTopicPartitionsResponseTopic")
    no = tuple(
        entities.build(
            topic_class,
            error_code=FAILED,
            name=name,
            topic_id=None,
            is_internal=False,
            partitions=(),
            topic_authorized_operations=NO_AUTHORIZED_OPERATIONS,
        )
        for name in (() if everything else others)
    )

    def finish(served: Any) -> Any:
        if served is None:
            response_class = entities.response_class(header.api_key, header.api_version)
            return entities.build(response_class, topics=no, next_cursor=None)
        return _with_all_operations(asking, served, no)

    asked_class = entities.nested(header.api_key, header.api_version, "TopicRequest", "request")
    cursor = entity.cursor
    if everything and cursor is not None and cursor.topic_name not in allowed and cursor.partition_index >= 0:
        # Those that are left are asked for by their names: a cursor has to name one of them.
        allowed = tuple(name for name in allowed if name >= cursor.topic_name)
        cursor = None
    asked = tuple(entities.build(asked_class, name=name) for name in allowed)
    return Screened(replaced(entity, topics=asked, cursor=cursor) if asked else None, finish)


def _with_all_operations(asking: Asking, served: Any, others: tuple[Any, ...]) -> Any:
    """Return an answer whose topics tell what the client may do, and those it may not see behind them. Topics
    that are not known here yet are looked at here for the first time."""
    shown = tuple(
        topic if topic.error_code in _REFUSED_AS_A_WHOLE else _with_operations(asking, topic)
        for topic in served.topics
        if topic.name is None or asking.may_topic(Operation.DESCRIBE, topic.name)
    )
    return replaced(served, topics=shown + others)


def _uncreatable(asking: Asking, version: int, entity: Any) -> frozenset[str]:
    if not asking.auto_create or asking.may_cluster(Operation.CREATE):
        return frozenset()
    missing = missing_topics(asking.image, version, entity)
    return frozenset(name for name in missing if not asking.may_topic(Operation.CREATE, name))


def _is_shown(asking: Asking, topic: Any, uncreatable: frozenset[str]) -> bool:
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is None:
        name = topic.name or ""
        return name not in uncreatable and asking.may_topic(Operation.DESCRIBE, name)
    known = asking.image.topics_by_id.get(topic_id.bytes)
    return known is None or asking.may_topic(Operation.DESCRIBE, known.name)


def _hidden_topic(version: int, topic: Any) -> Any:
    topic_id = getattr(topic, "topic_id", None)
    name = topic.name if topic_id is None else None
    return absent_topic(version, name, FAILED, topic_id)


def _with_operations(asking: Asking, topic: Any) -> Any:
    if topic.name is None:
        return topic
    operations = asking.access.operations(ResourceType.TOPIC, topic.name)
    return replaced(topic, topic_authorized_operations=operations)


def cluster_operations(asking: Asking) -> int:
    """Return what the client may do to the cluster; 0 for a client that may not see it."""
    if not asking.may_cluster(Operation.DESCRIBE):
        return 0
    return asking.access.operations(ResourceType.CLUSTER, CLUSTER_NAME)
