"""A real consumer reads `__consumer_offsets` and `__transaction_state` of a real tier: W51, W52, W53."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from actors.coordinator.kafka_records.codec import KafkaRecord, decode
from actors.coordinator.kafka_records.schemas import SCHEMAS, TRANSACTION_SCHEMAS, Schemas
from actors.coordinator.transactions.states import NAMES
from actors.ground.records import OFFSET_COMMIT
from actors.ground.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.conftest import kill
from tests.tier.test_failover import leader_of
from tests.tier.test_transactions import transactional

pytestmark = pytest.mark.clients

TOMBSTONES_S = 5.0
Committed = dict[tuple[str, int], tuple[int, str]]
"""Topic and partition -> offset and metadata."""


class Reader(ABC):
    """A program that reads all of an internal topic."""

    topic: str
    schemas: Schemas

    def __init__(self, consumer: Consumer) -> None:
        self.offsets: dict[int, list[int]] = {}
        """The offsets of the records that were read, by partition."""
        known = consumer.list_topics(self.topic, timeout=DEADLINE_S).topics[self.topic]
        self.partitions = list(known.partitions)
        consumer.assign([TopicPartition(self.topic, number) for number in self.partitions])
        self._consumer = consumer

    def look(self) -> Self:
        while (message := self._consumer.poll(0.2)) is not None:
            self._take(message)
        return self

    def _take(self, message: Message) -> None:
        assert message.error() is None, message.error()
        self.offsets.setdefault(message.partition(), []).append(message.offset())
        key = message.key()
        assert isinstance(key, bytes)
        value = message.value()
        assert value is None or isinstance(value, bytes)
        self.keep(decode(key, value, self.schemas))

    @abstractmethod
    def keep(self, record: KafkaRecord) -> None:
        """Keep what a record says."""


class Monitor(Reader):
    """A monitor like Burrow: it reads all of `__consumer_offsets` and keeps what groups have committed."""

    topic, schemas = OFFSETS_TOPIC, SCHEMAS

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(consumer)
        self.groups: dict[str, Committed] = {}

    def keep(self, record: KafkaRecord) -> None:
        if record.kind != OFFSET_COMMIT:
            return
        committed = self.groups.setdefault(record.key["group"], {})
        position = record.key["topic"], record.key["partition"]
        if record.value is None:
            committed.pop(position, None)
        else:
            # librdkafka commits the zero at the end of a C string too, and its own answers end before it.
            committed[position] = record.value["offset"], record.value["metadata"].rstrip("\0")


class Auditor(Reader):
    """A program that reads all of `__transaction_state` and keeps which states each id went through."""

    topic, schemas = TRANSACTIONS_TOPIC, TRANSACTION_SCHEMAS

    def __init__(self, consumer: Consumer) -> None:
        super().__init__(consumer)
        self.states: dict[str, list[str]] = {}
        """Transactional id -> its states, without those that come again when the state does."""
        self.partitions_of: dict[str, set[tuple[str, int]]] = {}
        """Transactional id -> the partitions of its last transaction that had any."""

    def keep(self, record: KafkaRecord) -> None:
        transactional_id = record.key["transactionalId"]
        assert record.value is not None, "nothing expires here"
        state = NAMES[record.value["transactionStatus"]]
        states = self.states.setdefault(transactional_id, [])
        if states[-1:] != [state]:
            states.append(state)
        partitions = {
            (each["topic"], number)
            for each in record.value["transactionPartitions"] or ()
            for number in each["partitionIds"]
        }
        if partitions:
            self.partitions_of[transactional_id] = partitions


R = TypeVar("R", bound=Reader)
T = TypeVar("T")


@contextmanager
def reader(tier: Tier, new: type[R]) -> Iterator[R]:
    consumer = Consumer(
        {
            "bootstrap.servers": tier.bootstrap,
            "group.id": "monitor",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        yield new(consumer)
    finally:
        consumer.close()


def coordinated(ask: Callable[[], T]) -> T | None:
    """Return what `ask` returns; None if its client still knows a coordinator that leads no more."""
    try:
        return ask()
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.NOT_COORDINATOR, KafkaError._TRANSPORT):
            return None
        raise


def commit(tier: Tier, group_id: str, *offsets: TopicPartition) -> None:
    """Commit offsets; a client whose coordinator was just killed is told so, and commits again."""
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})

    def is_done() -> bool:
        committed = coordinated(lambda: consumer.commit(offsets=list(offsets), asynchronous=False))
        return committed is not None and all(each.error is None for each in committed)

    try:
        until(is_done, "the commit")
    finally:
        consumer.close()


def fetched(tier: Tier, group_id: str, topic: str) -> Committed:
    """Return what OffsetFetch tells."""
    consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})
    try:
        asked = [TopicPartition(topic, number) for number in range(6)]
        told = until(lambda: coordinated(lambda: consumer.committed(asked, DEADLINE_S)), "what is committed")
        return {
            (each.topic, each.partition): (each.offset, each.metadata or "")
            for each in told
            if each.offset >= 0
        }
    finally:
        consumer.close()


def deleted(tier: Tier, group_id: str) -> bool:
    """Whether the group is deleted. Each try has a client of its own: librdkafka's admin client remembers a
    coordinator that answers NOT_COORDINATOR."""
    admin = AdminClient({"bootstrap.servers": tier.bootstrap})
    try:
        admin.delete_consumer_groups([group_id])[group_id].result(DEADLINE_S)
    except KafkaException as refused:
        if refused.args[0].code() == KafkaError.NOT_COORDINATOR:
            return False
        raise
    return True


def test_a_monitor_reads_what_groups_commit_and_goes_on_through_a_killed_leader(
    tier: Tier, topic: str, group_id: str
) -> None:
    """W51, W52: the state first, then commits and deletions as they come, and after a failover the state
    again at higher offsets: in the end always exactly what OffsetFetch tells."""
    commit(tier, group_id, TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 2**40, "where ü"))
    with reader(tier, Monitor) as watched:
        until(lambda: watched.look().groups.get(group_id) == fetched(tier, group_id, topic), "the state")
        assert len(fetched(tier, group_id, topic)) == 2
        commit(tier, group_id, TopicPartition(topic, 0, 6), TopicPartition(topic, 2, 1))
        until(lambda: watched.look().groups[group_id] == fetched(tier, group_id, topic), "new commits")
        partition = partition_for(group_id, len(watched.partitions))
        seen = watched.offsets[partition][-1]
        kill(leader_of(tier, partition)["pid"])
        commit(tier, group_id, TopicPartition(topic, 1, 77))
        until(
            lambda: watched.look().groups[group_id] == fetched(tier, group_id, topic), "the next leader's", 60
        )
        assert watched.groups[group_id][topic, 1][0] == 77
        assert watched.offsets[partition][-1] > seen

        def end_is_told() -> bool:
            """Delete the group, and return whether the reader sees it. If leadership returns to its preferred
            node just then, the next log begins with a state that has no such group, and no tombstone."""
            commit(tier, group_id, TopicPartition(topic, 1, 78))
            until(
                lambda: watched.look().groups[group_id] == fetched(tier, group_id, topic), "the last commit"
            )
            until(lambda: deleted(tier, group_id), "the next leader deletes the group")
            deadline = time.monotonic() + TOMBSTONES_S
            while watched.look().groups[group_id] and time.monotonic() < deadline:
                pass
            is_told = not watched.groups[group_id]
            watched.groups[group_id].clear()  # the group is gone: who missed its end would keep it for ever
            return is_told

        until(end_is_told, "tombstones of a deleted group", 60)


def test_a_transaction_is_seen_from_its_first_state_to_its_last_through_a_killed_leader(
    tier: Tier, topic: str, group_id: str
) -> None:
    """W53: the group's partition is one of `__consumer_offsets`, and the next leader's log goes on where the
    transaction is."""
    transactional_id = f"of-{group_id}"
    with reader(tier, Auditor) as watched:
        producer = transactional(tier, transactional_id)
        until(lambda: watched.look().states.get(transactional_id) == ["Empty"], "the id is known")
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=2)
        assert producer.flush(DEADLINE_S) == 0
        consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": group_id})
        offsets = [TopicPartition(topic, 0, 7)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), DEADLINE_S)
        consumer.close()
        of_group = (OFFSETS_TOPIC, partition_for(group_id, len(watched.partitions)))
        expected = {(topic, 2), of_group}
        until(lambda: watched.look().partitions_of.get(transactional_id) == expected, "all its partitions")
        assert watched.states[transactional_id] == ["Empty", "Ongoing"]
        partition = partition_for(transactional_id, len(watched.partitions))
        seen = watched.offsets[partition][-1]
        kill(leader_of(tier, partition)["pid"])
        producer.commit_transaction(DEADLINE_S)
        until(
            lambda: watched.look().states[transactional_id][-1] == "CompleteCommit", "the next leader's", 60
        )
        steps = [each for each in watched.states[transactional_id] if each != "PrepareCommit"]
        assert steps == ["Empty", "Ongoing", "CompleteCommit"]
        assert watched.offsets[partition][-1] > seen


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_clients_see_the_offsets_partitions_as_internal_topics(
    tier: Tier, admin: AdminClient, name: str
) -> None:
    """W51: its partitions are led where the groups' coordinators are, and nobody else writes it."""
    described = admin.describe_topics(TopicCollection([name]))[name].result(DEADLINE_S)
    assert described.is_internal
    assert len(described.partitions) == 4
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": tier.bootstrap})
    producer.produce(name, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert [error.code() for error in errors] == [KafkaError.TOPIC_EXCEPTION]
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 4, 1)])[name].result(DEADLINE_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
