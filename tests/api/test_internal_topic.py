"""`__consumer_offsets` as brokers show and refuse it: W51."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.topic_names import OFFSETS_TOPIC
from actors.metadata.commands import CreateTopics, NewTopic, ReportLeader
from actors.metadata.wire import pack_image, unpack_image
from actors.protocol import api_keys
from tests.api.brokers import Broker, brokers, part, versions
from tests.api.test_data import produce, run
from tests.topics.batches import batch

LEADERS = [1, 2, 3, 1]


async def shown(broker: Broker, version: int) -> Any:
    asked = part(api_keys.METADATA, version, "MetadataRequestTopic", name=OFFSETS_TOPIC, topic_id=None)
    answer = await broker.ask(
        api_keys.METADATA,
        version,
        topics=(asked,),
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    (topic,) = answer.topics
    return topic


@pytest.mark.parametrize("version", versions(api_keys.METADATA))
def test_metadata_shows_the_offsets_partitions_with_their_leaders(version: int) -> None:
    """W51: news that are fresher than the image count, and the id is the same at every broker."""

    async def story() -> None:
        _, (one, two, _) = brokers()
        topic = await shown(one, version)
        assert topic.error_code == ErrorCode.none
        assert [each.leader_id for each in topic.partitions] == LEADERS
        if version >= 1:
            assert topic.is_internal
        if version >= 10:
            assert topic.topic_id == (await shown(two, version)).topic_id
        one.apis.offsets_leaders = {2: 1}
        assert [each.leader_id for each in (await shown(one, version)).partitions] == [1, 2, 1, 1]

    run(story())


def test_fresher_news_outlive_an_older_image() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        one.apis.offsets_leaders = {2: 1}
        controller.decide(CreateTopics((NewTopic("t"),)))
        assert one.apis.image.topics[OFFSETS_TOPIC].partition_leaders == (1, 2, 1, 1)
        assert "t" in one.apis.image.topics
        controller.decide(ReportLeader(0, 3, 7))
        assert one.apis.image.topics[OFFSETS_TOPIC].partition_leaders == (3, 2, 1, 1)

    run(story())


def test_an_image_travels_without_its_internal_topic_and_has_it_again() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        image = one.apis.image
        again = unpack_image(pack_image(image))
        assert again.topics == image.topics
        assert set(again.created_topics) == {"t"}

    run(story())


@pytest.mark.parametrize("version", range(3, max(versions(api_keys.PRODUCE)) + 1))
def test_nobody_produces_to_it(version: int) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        answer = await produce(one, version, batch(b"x"), topic=OFFSETS_TOPIC)
        assert answer.error_code == ErrorCode.invalid_topic_exception
        assert len(one.logs) == 0

    run(story())


def test_its_records_are_not_deleted_and_it_is_not_created_grown_or_deleted() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        partition = part(api_keys.DELETE_RECORDS, 2, "DeleteRecordsPartition", partition_index=0, offset=0)
        topic = part(
            api_keys.DELETE_RECORDS, 2, "DeleteRecordsTopic", name=OFFSETS_TOPIC, partitions=(partition,)
        )
        timeout = timedelta(seconds=1)
        answer = await one.ask(api_keys.DELETE_RECORDS, 2, topics=(topic,), timeout=timeout)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.invalid_topic_exception
        new = part(
            api_keys.CREATE_TOPICS,
            7,
            "CreatableTopic",
            name=OFFSETS_TOPIC,
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        fields: dict[str, Any] = {"timeout": timeout, "validate_only": False}
        created = await one.ask(api_keys.CREATE_TOPICS, 7, topics=(new,), **fields)
        assert created.topics[0].error_code == ErrorCode.topic_already_exists
        more = part(
            api_keys.CREATE_PARTITIONS,
            3,
            "CreatePartitionsTopic",
            name=OFFSETS_TOPIC,
            count=9,
            assignments=None,
        )
        grown = await one.ask(
            api_keys.CREATE_PARTITIONS, 3, topics=(more,), timeout=timeout, validate_only=False
        )
        assert grown.results[0].error_code == ErrorCode.unknown_topic_or_partition
        gone = await one.ask(api_keys.DELETE_TOPICS, 5, topic_names=(OFFSETS_TOPIC,), timeout=timeout)
        assert gone.responses[0].error_code == ErrorCode.unknown_topic_or_partition
        assert OFFSETS_TOPIC in one.apis.image.topics

    run(story())


def test_a_broker_without_leaders_sends_readers_elsewhere() -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        asked = part(
            api_keys.LIST_OFFSETS,
            7,
            "ListOffsetsPartition",
            partition_index=0,
            timestamp=-1,
            current_leader_epoch=-1,
        )
        topic = part(api_keys.LIST_OFFSETS, 7, "ListOffsetsTopic", name=OFFSETS_TOPIC, partitions=(asked,))
        answer = await one.ask(api_keys.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=(topic,))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.not_leader_or_follower

    run(story())
