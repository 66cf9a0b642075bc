"""The answers of Metadata, FindCoordinator and DescribeCluster are what clients need to find their way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.api import topics
from actors.api.metadata import find_coordinator_answer, metadata_answer
from actors.catalog import codec
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings
from actors.ground.topic_names import INTERNAL_TOPICS
from actors.metadata.commands import CreateTopics, NewTopic, ReportController, SetNodeAlive
from actors.protocol.api_keys import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from actors.protocol.java_hash import partition_for
from tests.api.brokers import Broker, brokers, part, versions


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


async def metadata(broker: Broker, version: int, *names: str, create: bool = False) -> Any:
    asked = tuple(part(METADATA, version, "MetadataRequestTopic", name=name, topic_id=None) for name in names)
    return await broker.ask(
        METADATA,
        version,
        topics=asked,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


@pytest.mark.parametrize("version", versions(METADATA))
def test_every_version_shows_nodes_and_topics(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(ReportController(2))
        controller.decide(CreateTopics((NewTopic("t", 2),)))
        answer = await metadata(one, version, "t")
        assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
            (n, f"host{n}", 9_090 + n) for n in (1, 2, 3)
        ]
        (topic,) = answer.topics
        image = one.apis.image.topics["t"]
        assert (topic.error_code, topic.name) == (ErrorCode.none, "t")
        assert tuple(p.leader_id for p in topic.partitions) == image.partition_leaders
        assert all(tuple(p.isr_nodes) == (p.leader_id,) for p in topic.partitions)
        if version >= 1:
            assert answer.controller_id == 2
        if version >= 2:
            assert answer.cluster_id == "tier"
        if version >= 8:
            assert topic.topic_authorized_operations == -(2**31)
        if version >= 10:
            assert topic.topic_id == uuid.UUID(bytes=image.topic_id)

    run(story())


@pytest.mark.parametrize("version", versions(METADATA))
def test_all_topics_are_asked_for_by_null_and_before_version_1_by_none(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"), NewTopic("u"))))
        fields: dict[str, Any] = {
            "allow_auto_topic_creation": True,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        none = await one.ask(METADATA, version, topics=(), **fields)
        everything = none if version == 0 else await one.ask(METADATA, version, topics=None, **fields)
        assert {topic.name for topic in everything.topics} == {*INTERNAL_TOPICS, "t", "u"}
        if version >= 1:
            assert none.topics == ()

    run(story())


@pytest.mark.parametrize("version", range(12, 14))
def test_topics_are_found_by_id(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        known = uuid.UUID(bytes=one.apis.image.topics["t"].topic_id)
        unknown = uuid.UUID(int=99)
        topics = tuple(
            part(METADATA, version, "MetadataRequestTopic", name=None, topic_id=topic_id)
            for topic_id in (known, unknown)
        )
        answer = await one.ask(
            METADATA,
            version,
            topics=topics,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        assert [(t.error_code, t.name, t.topic_id) for t in answer.topics] == [
            (ErrorCode.none, "t", known),
            (ErrorCode.unknown_topic_id, None, unknown),
        ]
        by_name = part(METADATA, version, "MetadataRequestTopic", name="t", topic_id=None)
        answer = await one.ask(
            METADATA,
            version,
            topics=(by_name, topics[0], by_name),
            include_topic_authorized_operations=False,
        )
        assert [(t.name, t.topic_id) for t in answer.topics] == [("t", known)]

    run(story())


@pytest.mark.parametrize("version", range(10, 12))
def test_versions_10_and_11_have_ids_and_may_not_ask_by_them(version: int) -> None:
    """Kafka refuses the whole request, topics that are named in it too, and tells nothing of the cluster."""

    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        known = uuid.UUID(bytes=one.apis.image.topics["t"].topic_id)
        asked = (("t", None), ("", known))
        topics = tuple(
            part(METADATA, version, "MetadataRequestTopic", name=name, topic_id=topic_id)
            for name, topic_id in asked
        )
        answer = await one.ask(
            METADATA,
            version,
            topics=topics,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        assert (answer.brokers, answer.cluster_id, answer.controller_id) == ((), None, -1)
        assert [(t.error_code, t.name, t.topic_id, t.partitions) for t in answer.topics] == [
            (ErrorCode.invalid_request, name, topic_id, ()) for name, topic_id in asked
        ]

    run(story())


@pytest.mark.parametrize("version", versions(METADATA))
def test_a_missing_topic_is_unknown_at_first_and_there_when_it_is_asked_for_again(version: int) -> None:
    async def story() -> None:
        controller, (one, two, _) = brokers()
        answers = await asyncio.gather(
            *(metadata(one, version, "new", "new", create=True) for _ in range(50))
        )
        unknown = ErrorCode.unknown_topic_or_partition
        assert [topic.error_code for answer in answers for topic in answer.topics] == [unknown] * 50
        await created(one)
        assert len(controller.submitted) == 1
        for broker in (one, two):
            (topic,) = (await metadata(broker, version, "new", create=True)).topics
            assert (topic.error_code, len(topic.partitions)) == (ErrorCode.none, 3)

    run(story())


async def created(broker: Broker) -> None:
    """Wait until what the broker has begun to create is there, or refused."""
    while broker.context.creating:
        await asyncio.sleep(0)


def test_a_broker_creates_a_bounded_number_of_topics_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TOPICS_BEING_CREATED_MAX", 3)

    async def story() -> None:
        _, (one, *_) = brokers()
        names = [f"new-{number}" for number in range(5)]
        asked = await metadata(one, 12, *names, create=True)
        assert {topic.error_code for topic in asked.topics} == {ErrorCode.unknown_topic_or_partition}
        await created(one)
        assert set(one.apis.image.created_topics) == {"new-0", "new-1", "new-2"}
        await metadata(one, 12, *names, create=True)
        await created(one)
        assert set(one.apis.image.created_topics) == set(names)

    run(story())


def test_nothing_is_created_when_client_or_settings_forbid_it() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        off, (other, *_) = brokers(BrokerSettings(auto_create_topics_enable=False))
        for broker, create in ((one, False), (other, True)):
            (topic,) = (await metadata(broker, 12, "new", create=create)).topics
            assert (topic.error_code, topic.topic_id) == (ErrorCode.unknown_topic_or_partition, None)
        assert controller.submitted == off.submitted == []

    run(story())


def test_a_topic_that_cannot_be_created_stays_unknown() -> None:
    """Metadata does not tell why, neither here nor in Kafka."""

    async def story() -> None:
        controller, (one, *_) = brokers(BrokerSettings(topics_max=1))
        for _ in range(2):
            first, second, bad = (await metadata(one, 12, "a", "b", "no good", create=True)).topics
            await created(one)
        assert (first.error_code, second.error_code) == (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
        assert bad.error_code == ErrorCode.invalid_topic_exception
        controller.failure = TimeoutError()
        (topic,) = (await metadata(one, 12, "c", create=True)).topics
        assert topic.error_code == ErrorCode.unknown_topic_or_partition

    run(story())


def test_an_actor_without_controller_leaves_the_creation_to_the_broker() -> None:
    controller, (one, *_) = brokers()
    controller.decide(CreateTopics((NewTopic("t"),)))
    asked = part(METADATA, 12, "MetadataRequestTopic", name="new", topic_id=None)
    request = codec.build(
        codec.request_class(METADATA, 12), topics=(asked,), include_topic_authorized_operations=False
    )
    assert metadata_answer(one.apis.image, 1, 12, request, creates=True) is None
    answer = metadata_answer(one.apis.image, 1, 12, request, creates=False)
    assert answer is not None
    assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition


def test_dead_nodes_are_not_listed_and_never_the_controller() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t", 6),)))
        controller.decide(ReportController(2))
        controller.decide(SetNodeAlive(2, False))
        answer = await metadata(one, 12, "t")
        assert [broker.node_id for broker in answer.brokers] == [1, 3]
        assert answer.controller_id == 1
        for node_id in (3, 1):
            controller.decide(SetNodeAlive(node_id, False))
        answer = await metadata(one, 12, "t")
        assert (answer.brokers, answer.controller_id) == ((), -1)
        for partition in answer.topics[0].partitions:
            assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)
            assert partition.offline_replicas == partition.replica_nodes

    run(story())


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_w1_the_coordinator_is_the_leader_of_the_groups_partition(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        for group_id in ("group", "", "überall"):
            node_id = partition_for(group_id, 4) % 3 + 1
            answer = await find(one, version, group_id)
            assert (answer.error_code, answer.node_id) == (ErrorCode.none, node_id)
            assert (answer.host, answer.port) == (f"host{node_id}", 9_090 + node_id)

    run(story())


async def find(broker: Broker, version: int, key: str, key_type: int = 0) -> Any:
    answer = await broker.ask(FIND_COORDINATOR, version, key=key, coordinator_keys=(key,), key_type=key_type)
    if version < 4:
        return answer
    (coordinator,) = answer.coordinators
    assert coordinator.key == key
    return coordinator


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_an_unknown_or_dead_leader_is_error_15_without_an_address(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        partition = partition_for("group", 4)
        controller.decide(SetNodeAlive(partition % 3 + 1, False))
        one_answer = await find(one, version, "group")
        assert (one_answer.error_code, one_answer.node_id) == (ErrorCode.coordinator_not_available, -1)
        assert (one_answer.host, one_answer.port) == ("", -1)

    run(story())


def test_fresher_news_of_leaders_counts_over_the_image() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        partition = partition_for("group", 4)
        before = (await find(one, 4, "group")).node_id
        one.apis.offsets_leaders = {partition: before % 3 + 1}
        assert (await find(one, 4, "group")).node_id == before % 3 + 1

    run(story())


@pytest.mark.parametrize("version", range(1, 7))
def test_transactions_have_coordinators_and_share_groups_have_none(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        of_transaction, of_group = await find(one, version, "t", 1), await find(one, version, "t", 0)
        assert (of_transaction.error_code, of_transaction.node_id) == (ErrorCode.none, of_group.node_id)
        for key_type in (2, 9):
            assert (await find(one, version, "t", key_type)).error_code == ErrorCode.invalid_request

    run(story())


def test_before_the_first_image_there_is_no_coordinator() -> None:
    request = codec.build(codec.request_class(FIND_COORDINATOR, 0), key="g")
    answer = find_coordinator_answer(MetadataImage(), {}, 0, request)
    assert answer.error_code == ErrorCode.coordinator_not_available


@pytest.mark.parametrize("version", versions(DESCRIBE_CLUSTER))
def test_describe_cluster_lists_living_nodes_and_dead_ones_only_if_asked(version: int) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(SetNodeAlive(3, False))
        answer = await describe_cluster(one, version)
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (ErrorCode.none, "tier", 1)
        assert [broker.broker_id for broker in answer.brokers] == [1, 2]
        if version >= 2:
            answer = await describe_cluster(one, version, include_fenced_brokers=True)
            assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [(1, False), (2, False), (3, True)]
        if version >= 1:
            answer = await describe_cluster(one, version, endpoint_type=2)
            assert (answer.error_code, answer.brokers) == (ErrorCode.mismatched_endpoint_type, ())
            assert (answer.cluster_id, answer.controller_id) == ("", -1)

    run(story())


async def describe_cluster(broker: Broker, version: int, **fields: Any) -> Any:
    fields = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False} | fields
    return await broker.ask(DESCRIBE_CLUSTER, version, **fields)
