"""Topics as real consumers and producers use them: the development log, long polls, changes."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from actors.network.wire import Wire
from bench.ground.throwaway import Tier
from bench.peers.members import find_coordinator
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import Reader, produce, shared_out
from tests.topics.batches import batch

pytestmark = pytest.mark.clients

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
ALERT: dict[str, Any] = {"topic.metadata.refresh.interval.ms": 300, "fetch.wait.max.ms": 200}
"""librdkafka looks for changed topics every five minutes unless told otherwise."""
START_MS = 1_700_000_000_000


def produce_timed(bootstrap: str, topic: str, count: int) -> None:
    """`count` records in partition 0, one millisecond apart, in order although sent by many requests."""
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 7}
    producer = Producer(settings)
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for number in range(count):
        producer.produce(
            topic, b"%d" % number, partition=0, timestamp=START_MS + number, on_delivery=delivered
        )
    assert producer.flush(DEADLINE_S) == 0
    assert offsets == list(range(count))


def test_idempotent_producer_makes_its_topic_on_first_use_and_keeps_order(tier: Tier, group_id: str) -> None:
    """The producer uses InitProducerId and sequence numbers; auto.create.topics.enable makes the topic."""
    name = f"first-used-by-{group_id}"
    produce_timed(tier.bootstrap, name, 500)
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})
    consumer.assign([TopicPartition(name, 0, 0)])
    values: list[bytes] = []
    while len(values) < 500:
        (message,) = consumer.consume(1, DEADLINE_S) or pytest.fail(f"only {len(values)} of 500 records")
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    assert values == [b"%d" % number for number in range(500)]


def test_offsets_are_found_by_time(tier: Tier, admin: AdminClient, topic: str) -> None:
    """ListOffsets by timestamp, earliest, latest and newest timestamp (KIP-734)."""
    produce_timed(tier.bootstrap, topic, 100)
    partition = TopicPartition(topic, 0)

    def offset(question: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: question})[partition].result(DEADLINE_S).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 100
    assert offset(OffsetSpec.max_timestamp()) == 99
    assert offset(OffsetSpec.for_timestamp(START_MS - 5)) == 0
    assert offset(OffsetSpec.for_timestamp(START_MS + 42)) == 42
    assert offset(OffsetSpec.for_timestamp(START_MS + 100)) == -1, "no record is that young"


def test_deleted_records_are_skipped_by_consumers(
    tier: Tier, admin: AdminClient, topic: str, group_id: str
) -> None:
    """DeleteRecords: a position before the log's start is out of range, and auto.offset.reset decides."""
    produce(tier.bootstrap, topic, 60)
    partition = TopicPartition(topic, 0, 7)
    deleted = admin.delete_records([partition])[partition].result(DEADLINE_S)
    assert deleted.low_watermark == 7
    consumer = Consumer(
        {"bootstrap.servers": tier.bootstrap, "group.id": group_id, "auto.offset.reset": "earliest"}
    )
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S) == (7, 10)
    consumer.assign([TopicPartition(topic, 0, 2)])
    (message,) = consumer.consume(1, DEADLINE_S)
    assert (message.error(), message.offset()) == (None, 7)
    consumer.close()


def test_long_poll_waits_as_told_and_ends_when_records_come(
    tier: Tier, admin: AdminClient, topic: str
) -> None:
    """Fetch: an empty answer not before max_wait_ms, an answer with records long before (KIP-74 minimum)."""
    found = until(lambda: _leader_of(admin, topic), "the topic has a leader")

    async def fetch(wire: Wire, max_wait_ms: int) -> tuple[float, bytes]:
        """Seconds that the answer took, and the records in it."""
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
        started_s = time.monotonic()
        answer = await wire.call(
            "fetch",
            11,
            max_wait=max_wait_ms,
            min_bytes=1,
            replica_id=-1,
            topics=[{"topic": topic, "partitions": [partition]}],
            forgotten_topics_data=[],
        )
        (read,) = answer["responses"][0]["partitions"]
        assert read["error_code"] == 0
        return time.monotonic() - started_s, bytes(read["records"] or b"")

    async def story() -> None:
        wire = await Wire.connect(found.host, found.port)
        waited_s, records = await fetch(wire, 700)
        assert 0.65 < waited_s < 5
        assert records == b""
        waiting = asyncio.create_task(fetch(wire, 25_000))
        await asyncio.to_thread(produce, tier.bootstrap, topic, 1)
        waited_s, records = await waiting
        assert waited_s < 10
        assert b"0" in records
        await wire.close()

    asyncio.run(story())


@pytest.mark.parametrize("size", [70 * 1024, 1_000_000])
def test_a_client_may_begin_with_a_large_produce(
    tier: Tier, admin: AdminClient, topic: str, size: int
) -> None:
    """W13: clients that ask for no versions send what they have at once, as kafka-python 2.0 does."""
    found = until(lambda: _leader_of(admin, topic), "the topic has a leader")
    value = random.Random(size).randbytes(size)

    async def story() -> None:
        wire = await Wire.connect(found.host, found.port)
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch(value)}]}]
        answer = await wire.call("produce", 7, acks=-1, timeout=30_000, topic_data=data)
        (stored,) = answer["responses"][0]["partition_responses"]
        assert (stored["error_code"], stored["base_offset"]) == (0, 0)
        await wire.close()

    asyncio.run(story())
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = until(lambda: consumer.poll(0.1), "the record is there")
    assert message.value() == value
    consumer.close()


def test_a_client_may_begin_with_a_large_commit(tier: Tier, group_id: str) -> None:
    """W13: such a connection goes to the group's leader, with all that was read of it."""
    partitions = [
        {"partition_index": number, "committed_offset": number, "committed_metadata": "m" * 100}
        for number in range(1_000)
    ]

    async def story() -> None:
        wire = await Wire.connect(*await find_coordinator("127.0.0.1", tier.port, group_id))
        answer = await wire.call(
            "offset_commit",
            2,
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": "t", "partitions": partitions}],
        )
        told = answer["topics"][0]["partitions"]
        assert [row["partition_index"] for row in told] == list(range(1_000))
        await wire.close()

    asyncio.run(story())


@PROTOCOLS
def test_new_partitions_reach_consumers(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, protocol: str
) -> None:
    """A16, M12: CreatePartitions ends in a new assignment, and what is produced there is read."""
    reader = Reader(tier.bootstrap, topic, group_id, **{"group.protocol": protocol}, **ALERT)
    reader.start()
    shared_out([reader])
    admin.create_partitions([NewPartitions(topic, 9)])[topic].result(DEADLINE_S)
    shared_out([reader], partitions=9)
    produce(tier.bootstrap, topic, 9, partitions=9)
    until(lambda: len(reader.seen) == 9, "a record of each partition is read")
    reader.stop()


@PROTOCOLS
def test_consumers_outlive_the_deletion_of_their_topic(
    tier: Tier, admin: AdminClient, topic: str, group_id: str, protocol: str
) -> None:
    """A16, O16: the assignment goes with the topic; a new one of that name is read from its start."""
    reader = Reader(tier.bootstrap, topic, group_id, **{"group.protocol": protocol}, **ALERT)
    reader.start()
    shared_out([reader])
    produce(tier.bootstrap, topic, 60)
    until(lambda: len(reader.seen) == 60, "all records are read")
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    until(lambda: not reader.owned, "the partitions of the deleted topic are taken away")
    reader.seen.clear()
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(DEADLINE_S)
    shared_out([reader], partitions=2)
    produce(tier.bootstrap, topic, 4, partitions=2)
    until(lambda: reader.seen == {(0, 0), (0, 1), (1, 0), (1, 1)}, "the new topic is read")
    reader.stop()


def test_topic_errors_are_kafkas(tier: Tier, admin: AdminClient, topic: str) -> None:
    """A name taken, a name that is none, and what does not exist: each call gets Kafka's error name."""

    def error_of(future: Any) -> str:
        with pytest.raises(KafkaException) as caught:
            future.result(DEADLINE_S)
        return str(caught.value.args[0].name())

    assert error_of(admin.create_topics([NewTopic(topic, 1, 1)])[topic]) == "TOPIC_ALREADY_EXISTS"
    assert error_of(admin.create_topics([NewTopic("a b", 1, 1)])["a b"]) == "TOPIC_EXCEPTION"
    none = f"not-{topic}"
    assert error_of(admin.delete_topics([none])[none]) == "UNKNOWN_TOPIC_OR_PART"
    assert error_of(admin.create_partitions([NewPartitions(topic, 3)])[topic]) == "INVALID_PARTITIONS"
    wrong = NewTopic(none, 1, 1, config={"retention.ms": "soon"})
    assert error_of(admin.create_topics([wrong])[none]) == "INVALID_CONFIG"


def _leader_of(admin: AdminClient, topic: str) -> Any:
    """The broker that leads partition 0, or None while nobody knows."""
    cluster = admin.list_topics(topic, timeout=DEADLINE_S)
    partition = cluster.topics[topic].partitions.get(0)
    return partition and cluster.brokers.get(partition.leader)
