"""All versions of Produce, InitProducerId, and of what tells of logs and deletes from them, over the wire."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.metadata.commands import CreateTopics, NewTopic
from actors.protocol import api_keys
from actors.protocol.errors import HangUp, UnsupportedRequest
from actors.protocol.header import Header
from tests.api.brokers import Broker, Controller, brokers, part, versions
from tests.topics.batches import batch, contents, with_field

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


def run(story: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story, 20))


def one_topic(*configs: tuple[str, str]) -> tuple[Controller, Broker, Broker]:
    """Make topic t: node 1 leads partition 0, node 2 leads partition 1."""
    controller, (one, two, _) = brokers()
    topic = NewTopic("t", assignments=((0, (1,)), (1, (2,))), configs=configs)
    controller.decide(CreateTopics((topic,)))
    return controller, one, two


def topic_id(broker: Broker, name: str) -> uuid.UUID:
    """The topic's id, or an id that no topic has."""
    topic = broker.apis.image.topics.get(name)
    return uuid.UUID(int=99) if topic is None else uuid.UUID(bytes=topic.topic_id)


async def produce(
    broker: Broker,
    version: int,
    records: bytes | None,
    *,
    topic: str = "t",
    partition: int = 0,
    **fields: Any,
) -> Any:
    fields = {"acks": -1, "transactional_id": None, "timeout": timedelta(seconds=1)} | fields
    piece = part(api_keys.PRODUCE, version, "PartitionProduceData", index=partition, records=records)
    told = {"name": topic, "topic_id": topic_id(broker, topic)}
    topics = (part(api_keys.PRODUCE, version, "TopicProduceData", **told, partition_data=(piece,)),)
    answer = await broker.ask(api_keys.PRODUCE, version, topic_data=topics, **fields)
    if answer is None:
        return None
    (answered,) = answer.responses
    assert answered.topic_id == told["topic_id"] if version >= 13 else answered.name == topic
    (result,) = answered.partition_responses
    assert result.index == partition
    return result


@pytest.mark.parametrize("version", versions(api_keys.PRODUCE))
def test_w39_a_compacted_topic_names_the_records_without_keys_from_version_8_on(version: int) -> None:
    async def story() -> None:
        _, one, _ = one_topic(("cleanup.policy", "compact"))
        result = await produce(one, version, batch(b"a", b"b", b"c", keys=[b"k", None, None]))
        assert (result.error_code, result.base_offset) == (ErrorCode.invalid_record, -1)
        if version >= 8:
            words = "A record of a compacted topic needs a key."
            named = [(each.batch_index, each.batch_index_error_message) for each in result.record_errors]
            assert named == [(1, words), (2, words)]
            assert words in result.error_message
        assert (await produce(one, version, batch(b"a", keys=[b"k"]))).base_offset == 0

    run(story())


@pytest.mark.parametrize("version", versions(api_keys.PRODUCE))
def test_produced_records_get_offsets_in_every_version(version: int) -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        for expected in (0, 2):
            result = await produce(one, version, batch(b"a", b"b"))
            assert (result.error_code, result.base_offset) == (ErrorCode.none, expected)
            assert result.log_append_time is None
        cut_short = await produce(one, version, batch(b"a")[:-1])
        assert (cut_short.error_code, cut_short.base_offset) == (ErrorCode.invalid_record, -1)
        log = one.logs.log(one.apis.image.topics["t"], 0)
        assert [offset for offset, _, _ in contents(log.read(0, 10**6))] == [0, 1, 2, 3]

    run(story())


def test_where_a_record_may_not_go_is_told_by_code() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        good = batch(b"a")
        assert (await produce(one, 9, good, partition=1)).error_code == ErrorCode.not_leader_or_follower
        unknown = ErrorCode.unknown_topic_or_partition
        assert (await produce(one, 9, good, partition=2)).error_code == unknown
        assert (await produce(one, 9, good, partition=-1)).error_code == unknown
        assert (await produce(one, 9, good, topic="none")).error_code == unknown
        assert (await produce(one, 13, good, topic="none")).error_code == ErrorCode.unknown_topic_id
        assert (await produce(one, 9, good, acks=2)).error_code == ErrorCode.invalid_required_acks
        assert (await produce(one, 9, good, acks=2, topic="none")).error_code == unknown
        assert (await produce(one, 9, None)).error_code == ErrorCode.invalid_record
        assert (await produce(one, 9, None, partition=1)).error_code == ErrorCode.invalid_record

    run(story())


def test_acks_0_has_no_answer_and_its_records_are_there() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        assert await produce(one, 9, batch(b"a"), acks=0) is None
        assert one.logs.log(one.apis.image.topics["t"], 0).end_offset == 1

    run(story())


@pytest.mark.parametrize("version", [9, 13])
def test_acks_0_closes_the_connection_if_nothing_was_appended(version: int) -> None:
    """Kafka does so, because the client has no other way to learn of it."""

    async def story() -> None:
        _, one, _ = one_topic()
        for wrong in ({"topic": "none"}, {"partition": 1}, {"partition": 7}):
            with pytest.raises(HangUp):
                await produce(one, version, batch(b"a"), acks=0, **wrong)

    run(story())


@pytest.mark.parametrize("version", range(10, 14))
def test_who_asks_the_wrong_broker_is_told_the_right_one_and_where_it_is(version: int) -> None:
    """KIP-951."""

    async def story() -> None:
        _, one, _ = one_topic()
        piece = part(api_keys.PRODUCE, version, "PartitionProduceData", index=1, records=batch(b"a"))
        told = {"name": "t", "topic_id": topic_id(one, "t")}
        topic = part(api_keys.PRODUCE, version, "TopicProduceData", **told, partition_data=(piece,))
        fields = {"acks": -1, "transactional_id": None, "timeout": timedelta(seconds=1)}
        answer = await one.ask(api_keys.PRODUCE, version, topic_data=(topic,), **fields)
        leader = answer.responses[0].partition_responses[0].current_leader
        assert (leader.leader_id, leader.leader_epoch) == (2, 0)
        [node] = answer.node_endpoints
        assert (node.node_id, node.host, node.port) == (2, "host2", 9_092)
        assert (await produce(one, version, batch(b"a"))).current_leader.leader_id == -1

    run(story())


@pytest.mark.parametrize("version", [9, 13])
def test_of_what_comes_twice_for_a_partition_the_last_is_appended(version: int) -> None:
    """Kafka reads a request into a map of partitions."""

    async def story() -> None:
        _, one, _ = one_topic()
        pieces = [
            part(api_keys.PRODUCE, version, "PartitionProduceData", index=0, records=batch(value))
            for value in (b"a", b"b", b"c")
        ]
        told = {"name": "t", "topic_id": topic_id(one, "t")}
        topics = tuple(
            part(api_keys.PRODUCE, version, "TopicProduceData", **told, partition_data=data)
            for data in (tuple(pieces[:2]), (pieces[2],))
        )
        fields = {"acks": -1, "transactional_id": None, "timeout": timedelta(seconds=1)}
        answer = await one.ask(api_keys.PRODUCE, version, topic_data=topics, **fields)
        [[appended]] = [topic.partition_responses for topic in answer.responses]
        assert (appended.error_code, appended.base_offset) == (ErrorCode.none, 0)
        log = one.logs.log(one.apis.image.topics["t"], 0)
        assert contents(log.read(0, 10**6)) == [(0, 1_000, b"c")]

    run(story())


def test_a_refusal_of_the_log_tells_where_the_log_starts_and_one_before_it_does_not() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        await produce(one, 9, batch(b"a", producer_id=7, epoch=0, sequence=0))
        one.logs.delete_records(one.apis.image.topics["t"], 0, 1)
        gap = await produce(one, 9, batch(b"a", producer_id=7, epoch=0, sequence=5))
        assert (gap.error_code, gap.log_start_offset) == (ErrorCode.out_of_order_sequence_number, 1)
        control = await produce(one, 9, with_field(batch(b"a"), 21, ">h", 0x20))
        assert (control.error_code, control.log_start_offset) == (ErrorCode.invalid_record, 1)
        empty = await produce(one, 9, b"")
        assert (empty.error_code, empty.log_start_offset) == (ErrorCode.invalid_record, -1)
        corrupt = await produce(one, 9, batch(b"a")[:-1] + b"x")
        assert (corrupt.error_code, corrupt.log_start_offset) == (ErrorCode.corrupt_message, -1)

    run(story())


def test_log_append_time_is_told_to_the_producer() -> None:
    async def story() -> None:
        _, one, _ = one_topic(("message.timestamp.type", "LogAppendTime"))
        result = await produce(one, 9, batch(b"a"))
        assert result.log_append_time == datetime.datetime.fromtimestamp(50, datetime.UTC)

    run(story())


def test_a_disk_that_reserves_no_offsets_refuses_the_append() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        one.store.is_full = True
        assert (await produce(one, 9, batch(b"a"))).error_code == ErrorCode.kafka_storage_error
        assert one.logs.log(one.apis.image.topics["t"], 0).end_offset == 0
        one.store.is_full = False
        assert (await produce(one, 9, batch(b"a"))).base_offset == 0

    run(story())


async def list_offset(broker: Broker, version: int, timestamp: int, **fields: Any) -> tuple[int, int, int]:
    """Ask ListOffsets for one timestamp. Returns error, offset and timestamp."""
    asked = {"partition_index": 0, "current_leader_epoch": -1} | fields
    partition = part(api_keys.LIST_OFFSETS, version, "ListOffsetsPartition", timestamp=timestamp, **asked)
    topic = part(api_keys.LIST_OFFSETS, version, "ListOffsetsTopic", name="t", partitions=(partition,))
    answer = await broker.ask(
        api_keys.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=(topic,),
        timeout=timedelta(seconds=1),
    )
    (result,) = answer.topics[0].partitions
    return result.error_code, result.offset, result.timestamp


@pytest.mark.parametrize("version", versions(api_keys.LIST_OFFSETS))
def test_offsets_are_listed_by_end_start_and_time(version: int) -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        await produce(one, 9, batch(b"a", b"b", b"c", timestamps=[100, 300, 200]))
        assert await list_offset(one, version, LATEST) == (0, 3, -1)
        assert await list_offset(one, version, EARLIEST) == (0, 0, -1)
        assert await list_offset(one, version, 101) == (0, 1, 300)
        assert await list_offset(one, version, 301) == (0, -1, -1)
        unknown = (ErrorCode.unsupported_version, -1, -1)
        for timestamp, since, known in (
            (MAX_TIMESTAMP, 7, (0, 1, 300)),
            (EARLIEST_LOCAL, 8, (0, 0, -1)),
            (LATEST_TIERED, 9, (0, -1, -1)),
            (EARLIEST_PENDING_UPLOAD, 11, (0, -1, -1)),
        ):
            expected = known if version >= since else unknown
            assert await list_offset(one, version, timestamp) == expected, timestamp
        assert await list_offset(one, version, -9) == (ErrorCode.unsupported_version, -1, -1)
        elsewhere = await list_offset(one, version, LATEST, partition_index=1)
        assert elsewhere == (ErrorCode.not_leader_or_follower, -1, -1)
        if version >= 4:
            future = await list_offset(one, version, LATEST, current_leader_epoch=1)
            assert future == (ErrorCode.unknown_leader_epoch, -1, -1)
            odd = await list_offset(one, version, LATEST, current_leader_epoch=-2)
            assert odd == (ErrorCode.fenced_leader_epoch, -1, -1)
            assert await list_offset(one, version, LATEST, current_leader_epoch=0) == (0, 3, -1)

    run(story())


@pytest.mark.parametrize("version", versions(api_keys.LIST_OFFSETS))
def test_a_partition_that_is_asked_about_twice_is_refused_and_the_others_are_not(version: int) -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        await produce(one, 9, batch(b"a"))
        asked = [
            part(
                api_keys.LIST_OFFSETS,
                version,
                "ListOffsetsPartition",
                partition_index=index,
                timestamp=timestamp,
                current_leader_epoch=-1,
            )
            for index, timestamp in ((0, LATEST), (1, LATEST), (0, EARLIEST))
        ]
        topics = tuple(
            part(api_keys.LIST_OFFSETS, version, "ListOffsetsTopic", name="t", partitions=partitions)
            for partitions in (tuple(asked[:2]), (asked[2],))
        )
        fields = {"replica_id": -1, "isolation_level": 0, "timeout": timedelta(seconds=1)}
        answer = await one.ask(api_keys.LIST_OFFSETS, version, topics=topics, **fields)
        [told] = answer.topics
        assert [(each.partition_index, each.error_code) for each in told.partitions] == [
            (0, ErrorCode.invalid_request),
            (1, ErrorCode.not_leader_or_follower),
        ]

    run(story())


@pytest.mark.parametrize("version", versions(api_keys.OFFSET_FOR_LEADER_EPOCH))
def test_where_an_epoch_ends_is_told_to_who_knows_the_current_one(version: int) -> None:
    """KIP-320."""

    async def ask(broker: Broker, partition: int, epoch: int, current: int, name: str = "t") -> Any:
        asked = part(
            api_keys.OFFSET_FOR_LEADER_EPOCH,
            version,
            "OffsetForLeaderPartition",
            partition=partition,
            current_leader_epoch=current,
            leader_epoch=epoch,
        )
        topic = part(
            api_keys.OFFSET_FOR_LEADER_EPOCH,
            version,
            "OffsetForLeaderTopic",
            topic=name,
            partitions=(asked,),
        )
        answer = await broker.ask(api_keys.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=(topic,))
        ([told],) = (each.partitions for each in answer.topics)
        assert (answer.topics[0].topic, told.partition) == (name, partition)
        return told.error_code, told.leader_epoch, told.end_offset

    async def story() -> None:
        _, one, _ = one_topic()
        await produce(one, 9, batch(b"a", b"b"))
        for current in (-1, 0):
            assert await ask(one, 0, 0, current) == (0, 0, 2)
            assert await ask(one, 0, 1, current) == (0, -1, -1)
            assert await ask(one, 0, -1, current) == (0, -1, -1)
        assert await ask(one, 0, 0, 1) == (ErrorCode.unknown_leader_epoch, -1, -1)
        assert await ask(one, 0, 0, -2) == (ErrorCode.fenced_leader_epoch, -1, -1)
        assert await ask(one, 1, 0, -1) == (ErrorCode.not_leader_or_follower, -1, -1)
        unknown = (ErrorCode.unknown_topic_or_partition, -1, -1)
        assert await ask(one, 7, 0, 1) == await ask(one, 0, 0, -1, "none") == unknown

    run(story())


@pytest.mark.parametrize("version", versions(api_keys.DELETE_RECORDS))
def test_records_are_deleted_up_to_an_offset(version: int) -> None:
    async def delete(broker: Broker, offset: int, partition: int = 0) -> tuple[int, int]:
        piece = part(
            api_keys.DELETE_RECORDS,
            version,
            "DeleteRecordsPartition",
            partition_index=partition,
            offset=offset,
        )
        topic = part(api_keys.DELETE_RECORDS, version, "DeleteRecordsTopic", name="t", partitions=(piece,))
        answer = await broker.ask(
            api_keys.DELETE_RECORDS, version, topics=(topic,), timeout=timedelta(seconds=1)
        )
        (result,) = answer.topics[0].partitions
        return result.error_code, result.low_watermark

    async def story() -> None:
        _, one, _ = one_topic()
        await produce(one, 9, batch(b"a", b"b", b"c"))
        assert await delete(one, 2) == (0, 2)
        assert await delete(one, 4) == (ErrorCode.offset_out_of_range, -1)
        assert await delete(one, -1) == (0, 3)
        assert await delete(one, 0, partition=1) == (ErrorCode.not_leader_or_follower, -1)

    run(story())


@pytest.mark.parametrize("version", versions(api_keys.INIT_PRODUCER_ID))
def test_producer_ids_are_never_given_twice_in_the_tier(version: int) -> None:
    async def init(broker: Broker) -> tuple[int, int, int]:
        answer = await broker.ask(
            api_keys.INIT_PRODUCER_ID,
            version,
            transactional_id=None,
            transaction_timeout=timedelta(seconds=1),
        )
        return answer.error_code, answer.producer_id, answer.producer_epoch

    async def story() -> None:
        controller, one, two = one_topic()
        answers = await asyncio.gather(*(init(broker) for broker in (one, two) for _ in range(1_500)))
        assert {(error, epoch) for error, _, epoch in answers} == {(0, 0)}
        assert len({producer_id for _, producer_id, _ in answers}) == 3_000
        assert len(controller.submitted) == 4
        controller.failure = TimeoutError()
        left = [await init(one) for _ in range(501)]
        assert [error for error, _, _ in left] == [0] * 500 + [ErrorCode.coordinator_load_in_progress]

    run(story())


def test_what_is_not_the_brokers_own_is_unsupported_here() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        with pytest.raises(UnsupportedRequest):
            await one.apis.handle(Header(api_keys.HEARTBEAT, 4, 1), None)

    run(story())
