"""Answer Metadata, FindCoordinator and DescribeCluster from an image, purely, so that any actor can.

What clients need of them: the controller is a listed broker,
FindCoordinator names a listed broker, topics have ids from version 10 on. So only nodes that are alive are
listed or named.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.topic_ids import wire_topic_id
from actors.catalog import codec
from actors.ground.image import NO_NODE, NO_TOPIC_ID, MetadataImage, NodeImage, TopicImage
from actors.ground.topic_names import name_problem
from actors.protocol.api_keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from actors.protocol.metadata_entities import (
    NO_AUTHORIZED_OPERATIONS,
    absent_topic,
    has_ids_too_early,
    missing_topics,
)
from actors.protocol.partitioning import partitioning_of

LEADER_EPOCH = 0
GROUP = 0
TRANSACTION = 1
"""The type of a coordinator's key that is a transactional id, as GROUP is for a group."""
BROKERS_ENDPOINT = 1
CONTROLLERS_ENDPOINT = 2
PARTITION_ENTITIES_MAX = 16_384


def metadata_answer(
    image: MetadataImage, node_id: int, version: int, entity: Any, *, creates: bool
) -> Any | None:
    """Return the answer of `node_id` to a Metadata request; None if `creates` and a topic of the request has
    to be created first, which only a broker begins."""
    if has_ids_too_early(version, entity):
        return _ids_too_early(version, entity)
    if creates and missing_topics(image, version, entity):
        return None
    if entity.topics is None or (version == 0 and not entity.topics):
        asked = [_topic(image, version, topic) for topic in image.topics.values()]
    else:
        asked = _asked_topics(image, version, entity.topics)
    broker_class = codec.nested(METADATA, version, "MetadataResponseBroker")
    return codec.build(
        codec.response_class(METADATA, version),
        brokers=tuple(
            codec.build(broker_class, node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in _alive(image)
        ),
        cluster_id=image.cluster_id,
        controller_id=_controller_id(image, node_id),
        topics=tuple(asked),
        cluster_authorized_operations=NO_AUTHORIZED_OPERATIONS,
        error_code=ErrorCode.none,
    )


def _ids_too_early(version: int, entity: Any) -> Any:
    """Return the answer that refuses every topic of the request."""
    return codec.build(
        codec.response_class(METADATA, version),
        brokers=(),
        cluster_id=None,
        controller_id=NO_NODE,
        topics=tuple(
            absent_topic(version, topic.name or "", ErrorCode.invalid_request, topic.topic_id)
            for topic in entity.topics
        ),
        cluster_authorized_operations=NO_AUTHORIZED_OPERATIONS,
    )


def _alive(image: MetadataImage) -> list[NodeImage]:
    return [node for node in image.nodes.values() if node.alive]


def _controller_id(image: MetadataImage, node_id: int) -> int:
    """Return a listed broker: admin clients send there, and every broker passes on to the controller."""
    alive = [node.node_id for node in _alive(image)]
    for candidate in (image.controller_node_id, node_id):
        if candidate in alive:
            return candidate
    return min(alive, default=NO_NODE)


def _asked_topics(image: MetadataImage, version: int, topics: Iterable[Any]) -> list[Any]:
    """Return what is told of the topics of a request, each once, even if one is asked for by its name and by
    its id."""
    found: dict[Any, Any] = {}
    for asked in dict.fromkeys(topics):
        told = _asked_topic(image, version, asked)
        found.setdefault(told.topic_id if told.name is None else told.name, told)
    return list(found.values())


def _asked_topic(image: MetadataImage, version: int, asked: Any) -> Any:
    topic_id: uuid.UUID | None = getattr(asked, "topic_id", None)
    if topic_id is not None:
        topic = image.topics_by_id.get(topic_id.bytes)
        if topic is None:
            return absent_topic(version, None, ErrorCode.unknown_topic_id, topic_id)
        return _topic(image, version, topic)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(image, version, topic)
    if name_problem(name) is not None:
        return absent_topic(version, name, ErrorCode.invalid_topic_exception, None)
    return absent_topic(version, name, ErrorCode.unknown_topic_or_partition, None)


def _topic(image: MetadataImage, version: int, topic: TopicImage) -> Any:
    assert topic.topic_id != NO_TOPIC_ID
    return codec.build(
        codec.nested(METADATA, version, "MetadataResponseTopic"),
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=wire_topic_id(topic.topic_id),
        is_internal=topic.internal,
        partitions=tuple(
            _partition(image, version, partition, leader)
            for partition, leader in enumerate(topic.partition_leaders)
        ),
        topic_authorized_operations=NO_AUTHORIZED_OPERATIONS,
    )


def _partition(image: MetadataImage, version: int, partition: int, leader: int) -> Any:
    node = image.nodes.get(leader)
    return _partition_entity(version, partition, leader, node is not None and node.alive)


@lru_cache(maxsize=PARTITION_ENTITIES_MAX)
def _partition_entity(version: int, partition: int, leader: int, led: bool) -> Any:
    """Return a partition's entity, cached because topics have them in common: few partitions are numbered
    high and few nodes lead."""
    return codec.build(
        codec.nested(METADATA, version, "MetadataResponsePartition"),
        **partition_fields(partition, leader, led),
    )


def partition_fields(partition: int, leader: int, led: bool) -> dict[str, Any]:
    """Return what Metadata and DescribeTopicPartitions tell of a partition, whose leader is its one replica.
    `led` says whether that node is alive."""
    return {
        "error_code": ErrorCode.none if led else ErrorCode.leader_not_available,
        "partition_index": partition,
        "leader_id": leader if led else NO_NODE,
        "leader_epoch": LEADER_EPOCH,
        "replica_nodes": (leader,),
        "isr_nodes": (leader,) if led else (),
        "offline_replicas": () if led else (leader,),
    }


CoordinatorFields = dict[str, Any]
"""What FindCoordinator answers for one key, as the fields of its entry."""


def find_coordinator_answer(
    image: MetadataImage, overlay: Mapping[int, int], version: int, entity: Any
) -> Any:
    """Return the answer to FindCoordinator.

    `overlay` has leaders of offsets partitions (node ids) as far as they are known better than by `image`.
    """
    return coordinators_answer(version, entity, partial(_coordinator, image, overlay))


def coordinators_answer(version: int, entity: Any, place_of: Callable[[int, str], CoordinatorFields]) -> Any:
    """Return the answer to FindCoordinator, with what `place_of` says of each key and its type."""
    key_type = coordinator_type(version, entity)
    response_class = codec.response_class(FIND_COORDINATOR, version)
    if version < 4:
        return codec.build(response_class, **place_of(key_type, entity.key))
    coordinator_class = codec.nested(FIND_COORDINATOR, version, "Coordinator")
    return codec.build(
        response_class,
        coordinators=tuple(
            codec.build(coordinator_class, key=key, **place_of(key_type, key))
            for key in entity.coordinator_keys
        ),
    )


def coordinator_type(version: int, entity: Any) -> int:
    """Return what kind of coordinators FindCoordinator asks for."""
    return int(entity.key_type) if version >= 1 else GROUP


def _coordinator(
    image: MetadataImage, overlay: Mapping[int, int], key_type: int, key: str
) -> CoordinatorFields:
    if key_type not in (GROUP, TRANSACTION):
        return no_coordinator(
            ErrorCode.invalid_request, f"Coordinators of type {key_type} are not supported."
        )
    if not image.offsets_leaders:
        return no_coordinator()
    partition = partitioning_of(image).partition_of(key)
    node = image.nodes.get(overlay.get(partition, image.offsets_leaders[partition]))
    if node is None or not node.alive:
        return no_coordinator()
    return coordinator_at(node.node_id, node.host, node.port)


def coordinator_at(broker_id: int, host: str, port: int) -> CoordinatorFields:
    """Return what is told of a coordinator that is known."""
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "node_id": broker_id,
        "host": host,
        "port": port,
    }


def no_coordinator(
    error_code: ErrorCode = ErrorCode.coordinator_not_available,
    message: str = "The coordinator is not available.",
) -> CoordinatorFields:
    """Return what is told of a coordinator that is not known."""
    return {
        "error_code": error_code,
        "error_message": message,
        "node_id": NO_NODE,
        "host": "",
        "port": -1,
    }


def describe_cluster_answer(image: MetadataImage, node_id: int, version: int, entity: Any) -> Any:
    """Return the answer of `node_id` to DescribeCluster."""
    endpoint_type = entity.endpoint_type if version >= 1 else BROKERS_ENDPOINT
    error = ErrorCode.none
    if endpoint_type != BROKERS_ENDPOINT:
        known = endpoint_type == CONTROLLERS_ENDPOINT
        error = ErrorCode.mismatched_endpoint_type if known else ErrorCode.unsupported_endpoint_type
    fenced_too = version >= 2 and entity.include_fenced_brokers
    broker_class = codec.nested(DESCRIBE_CLUSTER, version, "DescribeClusterBroker")
    brokers = tuple(
        codec.build(
            broker_class,
            broker_id=node.node_id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            is_fenced=not node.alive,
        )
        for node in image.nodes.values()
        if node.alive or fenced_too
    )
    return codec.build(
        codec.response_class(DESCRIBE_CLUSTER, version),
        error_code=error,
        error_message=None if error == ErrorCode.none else "Only the brokers' endpoints can be described.",
        endpoint_type=BROKERS_ENDPOINT,
        cluster_id=image.cluster_id if error == ErrorCode.none else "",
        controller_id=_controller_id(image, node_id) if error == ErrorCode.none else NO_NODE,
        brokers=brokers if error == ErrorCode.none else (),
        cluster_authorized_operations=NO_AUTHORIZED_OPERATIONS,
    )
