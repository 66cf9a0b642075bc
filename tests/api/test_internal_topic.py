"""`__consumer_offsets` and `__transaction_state` as brokers show and refuse them: W51."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.metadata.commands import CreateTopics, NewTopic, ReportLeader
from actors.metadata.wire import pack_image, unpack_image
from actors.protocol import api_keys
from actors.protocol.transaction_messages import TxnMarker, WriteTxnMarkersRequest
from tests.api.brokers import Broker, brokers, part, versions
from tests.api.test_data import produce, run
from tests.topics.batches import batch

LEADERS = [1, 2, 3, 1]


each_topic = pytest.mark.parametrize("name", INTERNAL_TOPICS)


async def shown(broker: Broker, version: int, name: str) -> Any:
    asked = part(api_keys.METADATA, version, "MetadataRequestTopic", name=name, topic_id=None)
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


@each_topic
@pytest.mark.parametrize("version", versions(api_keys.METADATA))
def test_metadata_shows_the_offsets_partitions_with_their_leaders(version: int, name: str) -> None:
    """W51: news that are fresher than the image count, and the id is the same at every broker."""

    async def story() -> None:
        _, (one, two, _) = brokers()
        topic = await shown(one, version, name)
        assert topic.error_code == ErrorCode.none
        assert [each.leader_id for each in topic.partitions] == LEADERS
        if version >= 1:
            assert topic.is_internal
        if version >= 10:
            assert topic.topic_id == (await shown(two, version, name)).topic_id
        one.apis.offsets_leaders = {2: 1}
        assert [each.leader_id for each in (await shown(one, version, name)).partitions] == [1, 2, 1, 1]

    run(story())


@each_topic
def test_fresher_news_outlive_an_older_image(name: str) -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        one.apis.offsets_leaders = {2: 1}
        controller.decide(CreateTopics((NewTopic("t"),)))
        assert one.apis.image.topics[name].partition_leaders == (1, 2, 1, 1)
        assert "t" in one.apis.image.topics
        controller.decide(ReportLeader(0, 3, 7))
        assert one.apis.image.topics[name].partition_leaders == (3, 2, 1, 1)

    run(story())


def test_an_image_travels_without_its_internal_topics_and_has_them_again() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        controller.decide(CreateTopics((NewTopic("t"),)))
        image = one.apis.image
        again = unpack_image(pack_image(image))
        assert again.topics == image.topics
        assert len({again.topics[name].topic_id for name in INTERNAL_TOPICS}) == len(INTERNAL_TOPICS)
        assert set(again.created_topics) == {"t"}

    run(story())


@each_topic
@pytest.mark.parametrize("version", range(3, max(versions(api_keys.PRODUCE)) + 1))
def test_nobody_produces_to_it(version: int, name: str) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        answer = await produce(one, version, batch(b"x"), topic=name)
        assert answer.error_code == ErrorCode.invalid_topic_exception
        assert len(one.logs) == 0

    run(story())


@each_topic
def test_its_records_are_not_deleted_and_it_is_not_created_grown_or_deleted(name: str) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        partition = part(api_keys.DELETE_RECORDS, 2, "DeleteRecordsPartition", partition_index=0, offset=0)
        topic = part(api_keys.DELETE_RECORDS, 2, "DeleteRecordsTopic", name=name, partitions=(partition,))
        timeout = timedelta(seconds=1)
        answer = await one.ask(api_keys.DELETE_RECORDS, 2, topics=(topic,), timeout=timeout)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.invalid_topic_exception
        new = part(
            api_keys.CREATE_TOPICS,
            7,
            "CreatableTopic",
            name=name,
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
            name=name,
            count=9,
            assignments=None,
        )
        grown = await one.ask(
            api_keys.CREATE_PARTITIONS, 3, topics=(more,), timeout=timeout, validate_only=False
        )
        assert grown.results[0].error_code == ErrorCode.unknown_topic_or_partition
        gone = await one.ask(api_keys.DELETE_TOPICS, 5, topic_names=(name,), timeout=timeout)
        assert gone.responses[0].error_code == ErrorCode.unknown_topic_or_partition
        assert name in one.apis.image.topics

    run(story())


@each_topic
def test_a_broker_without_leaders_sends_readers_elsewhere(name: str) -> None:
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
        topic = part(api_keys.LIST_OFFSETS, 7, "ListOffsetsTopic", name=name, partitions=(asked,))
        answer = await one.ask(api_keys.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=(topic,))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.not_leader_or_follower

    run(story())


@pytest.mark.parametrize(
    ("name", "compression"), [(OFFSETS_TOPIC, "producer"), (TRANSACTIONS_TOPIC, "uncompressed")]
)
def test_it_has_the_configs_that_kafka_gives_it(name: str, compression: str) -> None:
    """It is compacted, so that tools know how to read it."""

    async def story() -> None:
        _, (one, *_) = brokers()
        resource = part(
            api_keys.DESCRIBE_CONFIGS,
            4,
            "DescribeConfigsResource",
            resource_type=2,
            resource_name=name,
            configuration_keys=("cleanup.policy", "compression.type", "segment.bytes"),
        )
        answer = await one.ask(
            api_keys.DESCRIBE_CONFIGS,
            4,
            resources=(resource,),
            include_synonyms=False,
            include_documentation=False,
        )
        told = {each.name: each.value for each in answer.results[0].configs}
        assert told == {
            "cleanup.policy": "compact",
            "compression.type": compression,
            "segment.bytes": "104857600",
        }

    run(story())


def test_a_marker_for_it_is_written_without_a_trace() -> None:
    """Kafka's brokers may have one in a transaction, and its marker is a batch that no reader is shown."""

    async def story() -> None:
        _, (one, *_) = brokers()
        asked = WriteTxnMarkersRequest((TxnMarker(7, 0, True, ((TRANSACTIONS_TOPIC, (0, 1)),), 5),))
        [marked] = one.apis.write_markers(asked).markers
        assert marked.topics == (
            (TRANSACTIONS_TOPIC, ((0, ErrorCode.none), (1, ErrorCode.not_leader_or_follower))),
        )
        assert len(one.logs) == 0

    run(story())
