"""Create, grow and delete topics: CreateTopics, DeleteTopics, CreatePartitions, and creation by Metadata.

The controller decides; the broker answers when its own image shows the change, so that a client that goes
on asking this broker sees what it has done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.config_entries import topic_configs
from actors.api.context import IMAGE_WAIT_S, BrokerContext
from actors.api.metadata import metadata_answer
from actors.api.topic_ids import plain_topic_id, wire_topic_id
from actors.catalog import codec
from actors.ground.image import MetadataImage
from actors.ground.limits import TOPICS_BEING_CREATED_MAX
from actors.metadata.commands import (
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    TopicToDelete,
)
from actors.protocol.api_keys import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from actors.protocol.header import Header
from actors.protocol.metadata_entities import missing_topics


async def metadata(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer Metadata, and begin to create what is missing if client and settings allow it
    (auto.create.topics.enable). A topic that is being created is unknown until it is there: the client asks
    again."""
    version = header.api_version
    answer = metadata_answer(context.image, context.node_id, version, entity, creates=False)
    if context.settings.auto_create_topics_enable:
        _create_missing(context, missing_topics(context.image, version, entity))
    return answer


def _create_missing(context: BrokerContext, names: tuple[str, ...]) -> None:
    """Begin to create topics, save for those that are being created already."""
    room = TOPICS_BEING_CREATED_MAX - len(context.creating)
    fresh = tuple(name for name in names if name not in context.creating)[:room]
    if fresh:
        task = asyncio.ensure_future(_create(context, fresh))
        context.creating.update(dict.fromkeys(fresh, task))
        task.add_done_callback(lambda _: _created(context, fresh))


def _created(context: BrokerContext, names: tuple[str, ...]) -> None:
    for name in names:
        context.creating.pop(name, None)


async def _create(context: BrokerContext, names: tuple[str, ...]) -> None:
    """Have topics created, and wait until this broker knows them. Why one cannot be created is told to
    nobody: to who asks again it is still unknown."""
    result = await context.submit(CreateTopics(tuple(NewTopic(name) for name in names)))
    there = (ErrorCode.none, ErrorCode.topic_already_exists)
    names_there = [topic.name for topic in result.topics if topic.error_code in there]
    await context.wait_for_image(_has(names_there), IMAGE_WAIT_S)


def _has(names: Iterable[str]) -> Callable[[MetadataImage], bool]:
    wanted = tuple(names)
    return lambda image: all(name in image.topics for name in wanted)


def _wait_s(timeout: timedelta) -> float:
    return max(0.0, min(timeout.total_seconds(), IMAGE_WAIT_S))


async def create_topics(context: BrokerContext, header: Header, entity: Any) -> Any:
    command = CreateTopics(
        tuple(
            NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                tuple((entry.partition_index, tuple(entry.broker_ids)) for entry in topic.assignments),
                tuple((config.name, config.value) for config in topic.configs),
            )
            for topic in entity.topics
        ),
        entity.validate_only,
    )
    result = await context.submit(command)
    if not command.validate_only:
        created = (topic.name for topic in result.topics if topic.error_code == ErrorCode.none)
        await context.wait_for_image(_has(created), _wait_s(entity.timeout))
    version = header.api_version
    return codec.build(
        codec.response_class(CREATE_TOPICS, version),
        topics=tuple(_created_topic(context, version, topic) for topic in result.topics),
    )


def _created_topic(context: BrokerContext, version: int, topic: CreatedTopic) -> Any:
    configs: tuple[Any, ...] = ()
    if version >= 5 and topic.error_code == ErrorCode.none:
        # The answer shows the configs that the topic has (KIP-525).
        config_class = codec.nested(CREATE_TOPICS, version, "CreatableTopicConfigs")
        configs = tuple(
            codec.build(
                config_class,
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in topic_configs(topic.configs, context.node)
        )
    return codec.build(
        codec.nested(CREATE_TOPICS, version, "CreatableTopicResult"),
        name=topic.name,
        topic_id=wire_topic_id(topic.topic_id),
        error_code=ErrorCode(topic.error_code),
        error_message=topic.error_message,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=configs,
    )


async def delete_topics(context: BrokerContext, header: Header, entity: Any) -> Any:
    version = header.api_version
    if version >= 6:
        topics = tuple(TopicToDelete(topic.name, plain_topic_id(topic.topic_id)) for topic in entity.topics)
    else:
        topics = tuple(TopicToDelete(name) for name in entity.topic_names)
    result = await context.submit(DeleteTopics(topics))
    gone = [topic.topic_id for topic in result.topics if topic.error_code == ErrorCode.none]
    await context.wait_for_image(
        lambda image: not any(topic_id in image.topics_by_id for topic_id in gone), _wait_s(entity.timeout)
    )
    result_class = codec.nested(DELETE_TOPICS, version, "DeletableTopicResult")
    return codec.build(
        codec.response_class(DELETE_TOPICS, version),
        responses=tuple(
            codec.build(
                result_class,
                name=topic.name,
                topic_id=wire_topic_id(topic.topic_id),
                error_code=ErrorCode(topic.error_code),
                error_message=topic.error_message,
            )
            for topic in result.topics
        ),
    )


async def create_partitions(context: BrokerContext, header: Header, entity: Any) -> Any:
    command = CreatePartitions(
        tuple(
            MorePartitions(
                topic.name,
                topic.count,
                None
                if topic.assignments is None
                else tuple(tuple(assignment.broker_ids) for assignment in topic.assignments),
            )
            for topic in entity.topics
        ),
        entity.validate_only,
    )
    result = await context.submit(command)
    if not command.validate_only:
        wanted = {topic.name: topic.partition_count for topic in command.topics}
        for topic in result.topics:
            if topic.error_code != ErrorCode.none:
                wanted.pop(topic.name, None)
        await context.wait_for_image(_has_partitions(wanted), _wait_s(entity.timeout))
    result_class = codec.nested(CREATE_PARTITIONS, header.api_version, "CreatePartitionsTopicResult")
    return codec.build(
        codec.response_class(CREATE_PARTITIONS, header.api_version),
        results=tuple(
            codec.build(
                result_class,
                name=topic.name,
                error_code=ErrorCode(topic.error_code),
                error_message=topic.error_message,
            )
            for topic in result.topics
        ),
    )


def _has_partitions(wanted: dict[str, int]) -> Callable[[MetadataImage], bool]:
    """Return whether the topics have the partitions that were wanted. A topic that has gone meanwhile is not
    waited for."""
    return lambda image: all(
        (topic := image.topics.get(name)) is None or topic.partition_count >= count
        for name, count in wanted.items()
    )
