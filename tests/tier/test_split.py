"""Offsets partitions are split under real clients of both protocols and a transactional producer."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import abstractmethod
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from bench.peers.settling import settle_group
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier.committer import Committer, check
from tests.tier.conftest import kill
from tests.tier.test_failover import bootstraps, leader_of

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "orders"
GROUPS = 8


@pytest.fixture
def tier() -> Iterator[Tier]:
    """A tier of two offsets partitions."""
    flags = ("--set", "group.initial.rebalance.delay.ms=200", "--set", "offsets.topic.num.partitions=2")
    with Tier(*flags, port=free_ports(3)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(DEADLINE_S)
        yield running


class Running:
    """Work that goes on in a thread until it is told to end. `rounds` counts what was acknowledged."""

    def __init__(self, tier: Tier, group_id: str) -> None:
        self.tier = tier
        self.group_id = group_id
        self.rounds = 0
        self.failure: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_S)
        assert self.failure is None

    def _run(self) -> None:
        try:
            self.work(self._is_over)
        except Exception as failure:
            self.failure = failure

    @abstractmethod
    def work(self, is_over: threading.Event) -> None:
        """Go on until it is over."""

    def committed(self) -> int:
        """Return the group's committed offset of partition 0."""
        settings = {"bootstrap.servers": self.tier.bootstrap, "group.id": self.group_id}
        consumer = Consumer(settings)
        try:
            [found] = consumer.committed([TopicPartition(TOPIC, 0)], DEADLINE_S)
            return int(found.offset)
        finally:
            consumer.close()


class KipConsumer(Running):
    """A consumer of KIP-848 that commits rising offsets."""

    def work(self, is_over: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.tier.bootstrap,
                "group.id": self.group_id,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([TOPIC])
        try:
            while not is_over.is_set():
                consumer.poll(0.05)
                if len(consumer.assignment()) < 3:
                    continue
                offset = TopicPartition(TOPIC, 0, self.rounds + 1)
                try:
                    consumer.commit(offsets=[offset], asynchronous=False)
                    self.rounds += 1
                except KafkaException as error:
                    if not error.args[0].retriable():
                        raise
        finally:
            consumer.close()


class Transactor(Running):
    """A transactional producer that commits rising offsets of a group, one in each transaction."""

    aborted = 0

    def work(self, is_over: threading.Event) -> None:
        settings = {"bootstrap.servers": self.tier.bootstrap, "transactional.id": f"tx-{self.group_id}"}
        producer = Producer(settings | {"transaction.timeout.ms": 60_000})
        producer.init_transactions(DEADLINE_S)
        consumer = Consumer({"bootstrap.servers": self.tier.bootstrap, "group.id": self.group_id})
        group = consumer.consumer_group_metadata()
        try:
            while not is_over.is_set():
                self._transact(producer, group)
        finally:
            consumer.close()

    def _transact(self, producer: Producer, group: object) -> None:
        producer.begin_transaction()
        try:
            producer.produce(TOPIC, b"x", partition=0)
            offset = TopicPartition(TOPIC, 0, self.rounds + 1)
            producer.send_offsets_to_transaction([offset], group, DEADLINE_S)
            producer.commit_transaction(DEADLINE_S)
            self.rounds += 1
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.aborted += 1
            producer.abort_transaction(DEADLINE_S)


def of_partition(prefix: str, partition: int) -> str:
    """Return a group id that belongs to an offsets partition after the split."""
    names = (f"{prefix}-{number}" for number in range(1_000))
    return next(name for name in names if partition_for(name, 4) == partition)


async def _split_under_load(tier: Tier, others: list[Running]) -> list[Committer]:
    committers = []
    for number in range(GROUPS):
        (member,) = await settle_group(("127.0.0.1", tier.port), f"classic-{number}", 1)
        committers.append(Committer(bootstraps(tier), member, TOPIC))
    halt = asyncio.Event()
    running = [asyncio.create_task(committer.run(halt)) for committer in committers]

    def all_go_on(what: str) -> None:
        before = [c.acknowledged for c in committers], [other.rounds for other in others]

        def more() -> bool:
            now = [c.acknowledged for c in committers], [other.rounds for other in others]
            failed = any(other.failure for other in others) or any(c.refusals for c in committers)
            return failed or all(
                n > b + 3
                for each, was in zip(now, before, strict=True)
                for n, b in zip(each, was, strict=True)
            )

        until(more, what, 90)

    await asyncio.to_thread(all_go_on, "everybody commits before the split")
    await asyncio.to_thread(tier.run, "partitions", "split", "--no-wait")
    leader = await asyncio.to_thread(leader_of, tier, 0)
    kill(leader["pid"])
    await asyncio.to_thread(until, lambda: not _listed(tier)["splits"], "the split is over", 120)
    await asyncio.to_thread(all_go_on, "everybody commits after the split")
    halt.set()
    await asyncio.wait_for(asyncio.gather(*running), DEADLINE_S)
    return committers


def _listed(tier: Tier) -> dict[str, object]:
    found: dict[str, object] = json.loads(tier.run("partitions", "list", "--json"))
    return found


def test_everybody_commits_through_a_split_and_a_killed_leader_and_nothing_is_lost(tier: Tier) -> None:
    others: list[Running] = [
        KipConsumer(tier, of_partition("consumer", 2)),
        KipConsumer(tier, of_partition("consumer", 1)),
        Transactor(tier, of_partition("transactional", 3)),
        Transactor(tier, of_partition("transactional", 0)),
    ]
    for other in others:
        other.start()

    async def story() -> None:
        committers = await _split_under_load(tier, others)
        await check(committers)

    asyncio.run(story())
    for other in others:
        other.end()
        assert other.rounds > 0
        assert other.committed() >= other.rounds
    assert _listed(tier)["partitions"] == [{"partition": p, "does": "serves"} for p in range(4)]
    before = [other.committed() for other in others]
    tier.restart()
    assert _listed(tier)["partitions"] == [{"partition": p, "does": "serves"} for p in range(4)]
    assert [other.committed() for other in others] == before
