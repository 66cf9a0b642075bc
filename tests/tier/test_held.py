"""Held heartbeats with real clients: who is held, what frees an answer, and that the others are left alone.

Asserted by counters and by what clients own: how long anything takes is for the benchmark.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.network.wire import Wire
from bench.ground.throwaway import Tier
from bench.peers.members import find_coordinator
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, passed, until
from tests.tier.consumers import Reader, shared_out
from tests.tier.python_readers import AiokafkaReader, KafkaPythonReader, wait_until
from tests.tier.scrape import ONE_NODE, scraped

pytestmark = pytest.mark.clients

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
MEMBERS = 3
GROUP_RESOURCE = 32
HEARTBEATS = 6
"""How many heartbeats of an idle member prove that it is left alone."""


@pytest.fixture(scope="module")
def holding() -> Iterator[Tier]:
    clients = "apache-kafka-java,librdkafka,confluent-kafka-*,*/*rdkafka-*,kafka-python:classic"
    flags = (*ONE_NODE, "--set", "group.initial.rebalance.delay.ms=200")
    flags = (*flags, "--set", f"group.heartbeat.hold.clients={clients}")
    flags = (*flags, "--set", "group.min.session.timeout.ms=1000")
    flags = (*flags, "--set", "group.consumer.min.session.timeout.ms=1000")
    with Tier(*flags, port=free_ports(1)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("held", 6, 1)])["held"].result(DEADLINE_S)
        yield running


class RawMember(ABC):
    """The only member of a group, without a client's library: it falls silent when it is told nothing."""

    def __init__(self, group_id: str, wire: Wire) -> None:
        self.group_id = group_id
        self._wire = wire
        self._last: asyncio.Task[Any] | None = None

    @classmethod
    async def settled(cls, tier: Tier, group_id: str, software: str) -> RawMember:
        address = await find_coordinator("127.0.0.1", tier.port, group_id)
        await cls.configure(await Wire.connect(*address), group_id)
        wire = await Wire.connect(*address)
        version = {"client_software_name": software, "client_software_version": "1"}
        await wire.call("api_versions", 3, **version)
        member = cls(group_id, wire)
        await member.join()
        return member

    @classmethod
    async def configure(cls, wire: Wire, group_id: str) -> None:
        """Set what the group shall have of its own, by a connection for that alone: one that the node's
        broker has served stays there, and is not held."""
        await wire.close()

    @abstractmethod
    async def join(self) -> None:
        """Join, and get to where heartbeats say nothing new."""

    @abstractmethod
    async def beat(self) -> Any:
        """Send a heartbeat and return its answer."""

    def beat_on(self) -> None:
        """Send a heartbeat without waiting for its answer."""
        self._last = asyncio.create_task(self.beat())

    async def answered(self) -> None:
        """Wait for the answer of a heartbeat that was sent so."""
        if self._last is not None:
            await self._last

    async def close(self) -> None:
        await self.answered()
        await self._wire.close()


class RawClassic(RawMember):
    session_s = 5.0
    spacing_s = 1.2

    async def join(self) -> None:
        joined = await self._wire.call(
            "join_group",
            5,
            group_id=self.group_id,
            session_timeout=int(self.session_s * 1_000),
            rebalance_timeout=30_000,
            member_id="",
            group_instance_id="static",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        self.member = {"group_id": self.group_id, "generation_id": 1, "member_id": joined["member_id"]}
        await self._wire.call("sync_group", 3, **self.member, assignments=[])
        await self.beat()

    async def beat(self) -> Any:
        return await self._wire.call("heartbeat", 3, **self.member)


class RawConsumer(RawMember):
    session_s = 8.0
    spacing_s = 1.2

    @classmethod
    async def configure(cls, wire: Wire, group_id: str) -> None:
        value = str(int(cls.session_s * 1_000))
        config = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": value}
        group = {"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configs": [config]}
        await wire.call("incremental_alter_configs", 1, resources=[group], validate_only=False)
        await super().configure(wire, group_id)

    async def join(self) -> None:
        answer = await self._beat(0, rebalance_timeout=30_000, subscribed_topic_names=[], topic_partitions=[])
        self.epoch = answer["member_epoch"]

    async def beat(self) -> Any:
        return await self._beat(self.epoch)

    async def _beat(self, epoch: int, **news: Any) -> Any:
        fields = {"rebalance_timeout": -1, "topic_partitions": None, **news}
        return await self._wire.call(
            "consumer_group_heartbeat",
            1,
            group_id=self.group_id,
            member_id="the-only-one",
            member_epoch=epoch,
            **fields,
        )


class Counts:
    """The tier's counters of holds, counted from the moment at which this is made."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._before = scraped(tier)

    def ended(self, cause: str) -> float:
        return self._since("heartbeat_hold_ends_total", (cause,))

    @property
    def began(self) -> float:
        return self._since("heartbeat_holds_total", ())

    def answered(self, api: str) -> float:
        return self._since("requests_total", (api,))

    def _since(self, name: str, labels: tuple[str, ...]) -> float:
        return scraped(self._tier).get((name, labels), 0) - self._before.get((name, labels), 0)


def held(tier: Tier, count: int) -> Callable[[], bool]:
    """Return a check whether this many heartbeats are held now."""
    return lambda: scraped(tier)["heartbeats_held", ()] == count


def reader_of(tier: Tier, group_id: str, protocol: str) -> Reader:
    return Reader(tier.bootstrap, "held", group_id, **{"group.protocol": protocol})


@contextlib.contextmanager
def readers_of(tier: Tier, group_id: str, protocol: str, count: int) -> Iterator[list[Reader]]:
    """Readers of one group. Those that still run leave it at the end, so that no other story meets them."""
    readers = [reader_of(tier, group_id, protocol) for _ in range(count)]
    try:
        yield readers
    finally:
        for reader in readers:
            if reader.is_alive():
                reader.stop()


def reach_as_news(tier: Tier, members: int, change: Callable[[], None], undo: Callable[[], None]) -> None:
    """Change a group of which all heartbeats are held: news has to end the holds of MEMBERS. On a slow
    machine a hold may end by itself before the change is decided, and its member is told by its next
    heartbeat: then the change is undone and made again."""
    deadline = time.monotonic() + 2 * DEADLINE_S
    while True:
        until(held(tier, members), "every member's heartbeat is held")
        counts = Counts(tier)
        change()
        if counts.ended("news") >= MEMBERS:
            return
        assert counts.ended("timeout") + counts.ended("request") > 0, "no hold has ended by itself"
        assert time.monotonic() < deadline, "holds end by themselves again and again"
        undo()


@BOTH
def test_a_join_and_a_leave_reach_a_settled_group_as_news(
    holding: Tier, group_id: str, protocol: str
) -> None:
    with readers_of(holding, group_id, protocol, MEMBERS) as readers:
        settled = list(readers)
        for reader in settled:
            reader.start()
        shared_out(settled)

        def join() -> None:
            readers.append(reader_of(holding, group_id, protocol))
            readers[-1].start()
            shared_out([*settled, readers[-1]])

        def leave() -> None:
            readers[-1].stop()
            shared_out(settled)

        reach_as_news(holding, MEMBERS, join, leave)
        reach_as_news(holding, MEMBERS + 1, leave, join)
        assert [reader.lost for reader in settled] == [0] * MEMBERS


@BOTH
def test_a_commit_and_a_close_do_not_wait_for_a_held_answer(
    holding: Tier, group_id: str, protocol: str
) -> None:
    """The commit and the close are further requests on the connection, so they end the hold."""
    settings = {"bootstrap.servers": holding.bootstrap, "group.id": group_id, "group.protocol": protocol}
    consumer = Consumer(settings)
    consumer.subscribe(["held"])
    until(lambda: consumer.poll(0.05) is None and consumer.assignment(), "assigned")
    counts = Counts(holding)

    def commit_while_held() -> bool:
        consumer.poll(0.05)
        if held(holding, 1)():
            consumer.commit(offsets=[TopicPartition("held", 0, 0)], asynchronous=False)
        return counts.ended("request") > 0

    until(commit_while_held, "a commit ended a hold")
    until(lambda: consumer.poll(0.05) is None and held(holding, 1)(), "its heartbeat is held again")
    consumer.close()
    until(held(holding, 0), "nothing is held for who has left")


@pytest.mark.parametrize("member", [RawClassic, RawConsumer], ids=["classic", "consumer"])
def test_a_member_that_falls_silent_is_out_as_soon_as_one_that_is_not_held(
    holding: Tier, group_id: str, member: type[RawClassic] | type[RawConsumer]
) -> None:
    """C12, M17: the session counts from when the last heartbeat came, not from when it was answered."""
    counts = Counts(holding)

    async def story() -> float:
        """Let both fall silent, and return by how many seconds the held one was out later."""
        both = [
            await member.settled(holding, f"{group_id}-{software}", software)
            for software in ("apache-kafka-java", "unheard-of")
        ]
        for _ in range(2):
            await passed(member.spacing_s)
            for each in both:
                await each.answered()
            for each in both:
                each.beat_on()
        watch = [await Wire.connect("127.0.0.1", holding.port) for _ in both]
        gone_at_s: dict[str, float] = {}
        while len(gone_at_s) < 2:
            for each, wire in zip(both, watch, strict=True):
                listed = await wire.call("list_groups", 4, states_filter=["Empty"])
                if any(row["group_id"] == each.group_id for row in listed["groups"]):
                    gone_at_s.setdefault(each.group_id, time.monotonic())
            await passed(0.01)
        for each in (*both, *watch):
            await each.close()
        held_s, other_s = (gone_at_s[each.group_id] for each in both)
        return held_s - other_s

    assert asyncio.run(story()) < 0.5
    assert counts.ended("timeout") >= 1


def test_kafka_python_is_held_where_it_is_listed_and_keeps_its_place(holding: Tier, group_id: str) -> None:
    counts = Counts(holding)
    reader = KafkaPythonReader(holding.bootstrap, "held", group_id, heartbeat_interval_ms=3_000)
    until(lambda: len(reader.owned) == 6, "assigned")
    until(lambda: counts.ended("timeout") >= 2, "two of its heartbeats were held to the end")
    assert (reader.assignments, reader.lost) == (1, 0)
    reader.stop()
    until(held(holding, 0), "nothing is held for who has left")


def test_aiokafka_which_does_not_say_its_name_is_never_held(holding: Tier, group_id: str) -> None:
    counts = Counts(holding)

    async def story() -> None:
        reader = AiokafkaReader(holding.bootstrap, "held", group_id, heartbeat_interval_ms=1_100)
        await wait_until(lambda: len(reader.owned) == 6, "assigned")
        await wait_until(lambda: counts.answered("heartbeat") >= HEARTBEATS, "its heartbeats are answered")
        await reader.stop()

    asyncio.run(story())
    assert counts.began == 0
