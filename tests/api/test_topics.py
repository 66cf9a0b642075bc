"""Topics are created, grown and deleted over the wire, and refused with the words that clients expect."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.api.context import NotAvailable
from actors.metadata.commands import CreateTopics, NewTopic, Outcome
from actors.protocol.api_keys import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from tests.api.brokers import Broker, brokers, part, versions

TIMEOUT = timedelta(seconds=5)


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


async def create(broker: Broker, version: int, *names: str, partitions: int = 2, **fields: Any) -> Any:
    topics = tuple(
        part(
            CREATE_TOPICS,
            version,
            "CreatableTopic",
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=(part(CREATE_TOPICS, version, "CreatableTopicConfig", name="retention.ms", value="9"),),
        )
        for name in names
    )
    fields = {"timeout": TIMEOUT, "validate_only": False} | fields
    return (await broker.ask(CREATE_TOPICS, version, topics=topics, **fields)).topics


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
def test_a_created_topic_is_there_when_the_answer_is(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        created, refused = await create(one, version, "t", "no good")
        topic = one.apis.image.topics["t"]
        assert (created.error_code, topic.partition_count) == (ErrorCode.none, 2)
        assert refused.error_code == ErrorCode.invalid_topic_exception
        assert refused.error_message
        if version >= 5:
            assert (created.num_partitions, created.replication_factor) == (2, 1)
            shown = {config.name: (config.value, config.config_source) for config in created.configs}
            assert shown["retention.ms"] == ("9", 1)
            assert shown["retention.bytes"] == ("67108864", 4)
            assert shown["segment.ms"] == ("604800000", 5)
        if version >= 7:
            assert created.topic_id == uuid.UUID(bytes=topic.topic_id)
            assert refused.topic_id is None

    run(story())


def test_validate_only_creates_nothing() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        (topic,) = await create(one, 7, "t", validate_only=True)
        assert (topic.error_code, topic.num_partitions) == (ErrorCode.none, 2)
        assert not one.apis.image.created_topics

    run(story())


@pytest.mark.parametrize("version", versions(CREATE_TOPICS))
def test_a_manual_assignment_is_passed_on(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        assignments = tuple(
            part(CREATE_TOPICS, version, "CreatableReplicaAssignment", partition_index=p, broker_ids=(node,))
            for p, node in enumerate((3, 1))
        )
        topic = part(
            CREATE_TOPICS,
            version,
            "CreatableTopic",
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=assignments,
            configs=(),
        )
        await one.ask(CREATE_TOPICS, version, topics=(topic,), timeout=TIMEOUT, validate_only=False)
        assert one.apis.image.topics["t"].partition_leaders == (3, 1)

    run(story())


def test_the_answer_waits_for_the_image_and_not_for_ever() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.keeps_images = True
        waiting = asyncio.ensure_future(create(one, 7, "t"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        controller.send_images()
        assert (await waiting)[0].error_code == ErrorCode.none
        (late,) = await create(one, 7, "u", timeout=timedelta(milliseconds=20))
        assert late.error_code == ErrorCode.none
        assert "u" not in one.apis.image.topics

    run(story())


def test_without_a_controller_every_topic_is_refused_with_a_code_that_is_retried() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.failure = NotAvailable()
        assert [t.error_code for t in await create(one, 7, "a", "b")] == [ErrorCode.not_controller] * 2
        controller.failure = TimeoutError()
        assert [t.error_code for t in await create(one, 7, "a")] == [ErrorCode.request_timed_out]
        controller.failure = None
        controller.refusal = Outcome(ErrorCode.coordinator_not_available)
        assert [t.error_code for t in await create(one, 7, "a")] == [ErrorCode.coordinator_not_available]

    run(story())


@pytest.mark.parametrize("version", versions(DELETE_TOPICS))
def test_topics_are_deleted_and_gone_when_the_answer_is_there(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("a"), NewTopic("b"))))
        by_id = uuid.UUID(bytes=one.apis.image.topics["b"].topic_id)
        topics = [("a", None), ("none", None)] + ([(None, by_id)] if version >= 6 else [])
        answer = await one.ask(
            DELETE_TOPICS,
            version,
            topic_names=("a", "none"),
            topics=tuple(
                part(DELETE_TOPICS, version, "DeleteTopicState", name=name, topic_id=topic_id)
                for name, topic_id in topics
            )
            if version >= 6
            else (),
            timeout=TIMEOUT,
        )
        expected = [("a", ErrorCode.none), ("none", ErrorCode.unknown_topic_or_partition)]
        if version >= 6:
            expected.append(("b", ErrorCode.none))
            assert answer.responses[2].topic_id == by_id
        assert [(topic.name, topic.error_code) for topic in answer.responses] == expected
        assert set(one.apis.image.created_topics) == ({"b"} if version < 6 else set())

    run(story())


@pytest.mark.parametrize("version", versions(CREATE_PARTITIONS))
def test_partitions_are_added(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t", 1), NewTopic("u", 1))))
        assignment = part(CREATE_PARTITIONS, version, "CreatePartitionsAssignment", broker_ids=(2,))
        topics = tuple(
            part(
                CREATE_PARTITIONS,
                version,
                "CreatePartitionsTopic",
                name=name,
                count=count,
                assignments=assignments,
            )
            for name, count, assignments in (("t", 3, None), ("u", 2, (assignment,)), ("none", 2, None))
        )
        answer = await one.ask(
            CREATE_PARTITIONS, version, topics=topics, timeout=TIMEOUT, validate_only=False
        )
        assert [result.error_code for result in answer.results] == [
            ErrorCode.none,
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
        ]
        image = one.apis.image
        assert image.topics["t"].partition_count == 3
        assert image.topics["u"].partition_leaders[1] == 2

    run(story())
