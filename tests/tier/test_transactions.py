"""Transactions of real producers: consume, transform, produce; committed, aborted, fenced, through kills."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.conftest import kill
from tests.tier.test_failover import leader_of

pytestmark = pytest.mark.clients

PARTITIONS = 3
OFFSETS_PARTITIONS = 4
COUNT = 30


@pytest.fixture
def source(admin: AdminClient, tier: Tier, topic: str) -> str:
    """A topic with `COUNT` records, equally many in each partition."""
    name = f"{topic}-in"
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": tier.bootstrap})
    for number in range(COUNT):
        producer.produce(name, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0
    return name


@contextmanager
def consumer_of(tier: Tier, group_id: str, **config: object) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": tier.bootstrap,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings | config)
    try:
        yield consumer
    finally:
        consumer.close()


def transactional(tier: Tier, transactional_id: str) -> Producer:
    settings = {
        "bootstrap.servers": tier.bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": 20_000,
    }
    producer = Producer(settings)
    producer.init_transactions(DEADLINE_S)
    return producer


def taken(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []

    def more() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
        return len(messages) >= count

    until(more, f"{count} records are consumed")
    return messages


def transform(producer: Producer, consumer: Consumer, messages: list[Message], target: str) -> None:
    """Write one record for each message in the open transaction, and the offsets behind them."""
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        place = (message.topic(), message.partition())
        producer.produce(target, b"of-" + message.value(), partition=message.partition())
        ends[place] = max(ends.get(place, 0), message.offset() + 1)
    assert producer.flush(DEADLINE_S) == 0
    offsets = [TopicPartition(*place, end) for place, end in ends.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), DEADLINE_S)


def committed(consumer: Consumer, topic: str) -> list[int]:
    """Asked with require.stable, as librdkafka does at read_committed: it waits for open transactions."""
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]

    def asked() -> list[int]:
        try:
            return [each.offset for each in consumer.committed(partitions, DEADLINE_S)]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return []  # a leader goes back to its place after an earlier test; librdkafka leaves it to us

    offsets: list[int] = until(asked, "the coordinator answers")
    return offsets


def values(tier: Tier, topic: str, isolation_level: str) -> list[bytes]:
    """Return every value in the topic, up to the end of each partition at this isolation level."""
    config = {"isolation.level": isolation_level, "enable.partition.eof": True}
    with consumer_of(tier, f"{topic}-{isolation_level}", **config) as consumer:
        partitions = [TopicPartition(topic, partition, 0) for partition in range(6)]
        consumer.assign(partitions)
        found: list[bytes] = []
        ended: set[int] = set()

        def more() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error():
                ended.add(message.partition())
            elif message is not None:
                found.append(message.value())
            return len(ended) == len(partitions)

        until(more, "every partition is read to its end")
        return found


def test_only_what_was_committed_is_seen_and_offsets_go_with_it(
    tier: Tier, source: str, topic: str, group_id: str
) -> None:
    """O7, O10: a client consumes, transforms and produces within one transaction."""
    producer = transactional(tier, f"tx-{topic}")
    with consumer_of(tier, group_id) as consumer:
        consumer.subscribe([source])
        messages = taken(consumer, COUNT)
        producer.begin_transaction()
        transform(producer, consumer, messages, topic)
        producer.abort_transaction(DEADLINE_S)
        assert committed(consumer, source) == [-1001] * PARTITIONS
        for part in (messages[:10], messages[10:]):
            producer.begin_transaction()
            transform(producer, consumer, part, topic)
            producer.commit_transaction(DEADLINE_S)
        assert committed(consumer, source) == [COUNT // PARTITIONS] * PARTITIONS
    expected = sorted(b"of-%d" % number for number in range(COUNT))
    assert sorted(values(tier, topic, "read_committed")) == expected
    assert sorted(values(tier, topic, "read_uncommitted")) == sorted(2 * expected)


def test_a_zombie_is_fenced_and_nothing_of_it_stays(
    tier: Tier, source: str, topic: str, group_id: str
) -> None:
    zombie = transactional(tier, f"tx-{topic}")
    with consumer_of(tier, group_id) as consumer:
        consumer.subscribe([source])
        zombie.begin_transaction()
        transform(zombie, consumer, taken(consumer, COUNT), topic)
        successor = transactional(tier, f"tx-{topic}")
        with pytest.raises(KafkaException) as refused:
            zombie.commit_transaction(DEADLINE_S)
        assert refused.value.args[0].name() == "_FENCED"
        assert committed(consumer, source) == [-1001] * PARTITIONS
        successor.begin_transaction()
        successor.produce(topic, b"mine", partition=0)
        successor.commit_transaction(DEADLINE_S)
    assert values(tier, topic, "read_committed") == [b"mine"]


def elsewhere_than(tier: Tier, node_id: int, name: str) -> str:
    """A group's or transactional id whose coordinator is on another node."""
    here = {r["partition"] for r in tier.replicas() if r.get("serving") and r["node_id"] == node_id}
    candidates = (f"{name}-{number}" for number in range(1_000))
    return next(each for each in candidates if partition_for(each, OFFSETS_PARTITIONS) not in here)


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_an_outcome_outlives_the_coordinator_that_decided_it(
    tier: Tier, admin: AdminClient, source: str, topic: str, outcome: str
) -> None:
    """The leader of the transaction is killed between its decision and the last marker: the broker of the
    target's partition is frozen meanwhile, so that this marker cannot be written."""
    partitions = admin.list_topics(topic, DEADLINE_S).topics[topic].partitions
    target, node_id = next((p, each.leader) for p, each in partitions.items() if each.leader != 1)
    broker_pid = next(node["pid"] for node in tier.brokers() if node["node_id"] == node_id)
    transactional_id = elsewhere_than(tier, node_id, f"tx-{topic}")
    group_id = elsewhere_than(tier, node_id, f"group-{topic}")
    producer = transactional(tier, transactional_id)
    with consumer_of(tier, group_id) as consumer:
        consumer.subscribe([source])
        messages = taken(consumer, COUNT)
        producer.begin_transaction()
        producer.produce(topic, b"one", partition=target)
        assert producer.flush(DEADLINE_S) == 0
        offsets = [TopicPartition(source, message.partition(), 10) for message in messages]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), DEADLINE_S)
        leader = leader_of(tier, partition_for(transactional_id, OFFSETS_PARTITIONS))
        os.kill(broker_pid, signal.SIGSTOP)
        try:
            end = asyncio.run(ended(producer, outcome, leader["pid"]))
        finally:
            os.kill(broker_pid, signal.SIGCONT)
        assert end in ("done", "not known")
        # Whoever is next has to wait until the markers of the last transaction are written.
        successor = transactional(tier, transactional_id)
        expected = [10] * PARTITIONS if outcome == "commit" else [-1001] * PARTITIONS
        assert committed(consumer, source) == expected
        successor.begin_transaction()
        successor.produce(topic, b"two", partition=target)
        successor.commit_transaction(DEADLINE_S)
    seen = [b"one", b"two"] if outcome == "commit" else [b"two"]
    assert values(tier, topic, "read_committed") == seen


async def ended(producer: Producer, outcome: str, leader_pid: int) -> str:
    end = producer.commit_transaction if outcome == "commit" else producer.abort_transaction
    try:
        await asyncio.to_thread(end, DEADLINE_S)
    except KafkaException:
        return "not known"
    finally:
        kill(leader_pid)
    return "done"


def test_kafka_pythons_transactions_work(tier: Tier, source: str, topic: str, group_id: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=tier.bootstrap, transactional_id=f"tx-{topic}")
    try:
        producer.init_transactions()
        place = kafka.TopicPartition(source, 0)
        for value, end in ((b"aborted", 3), (b"committed", 7)):
            producer.begin_transaction()
            producer.send(topic, value, partition=0)
            producer.flush()
            offsets = {place: kafka.OffsetAndMetadata(end, "", -1)}
            producer.send_offsets_to_transaction(offsets, group_id)
            if value == b"aborted":
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close()
    with consumer_of(tier, group_id) as consumer:
        assert committed(consumer, source) == [7, -1001, -1001]
    assert values(tier, topic, "read_committed") == [b"committed"]


def test_aiokafkas_transactions_work(tier: Tier, source: str, topic: str, group_id: str) -> None:
    async def story() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=tier.bootstrap, transactional_id=f"tx-{topic}")
        await producer.start()
        try:
            place = aiokafka.TopicPartition(source, 0)
            for value, end in ((b"aborted", 3), (b"committed", 7)):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value, partition=0)
                await producer.send_offsets_to_transaction({place: end}, group_id)
                if value == b"aborted":
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        finally:
            await producer.stop()

    asyncio.run(story())
    with consumer_of(tier, group_id) as consumer:
        assert committed(consumer, source) == [7, -1001, -1001]
    assert values(tier, topic, "read_committed") == [b"committed"]
