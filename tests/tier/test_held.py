"""Held heartbeats with real clients: who is held, what frees an answer, and that the others are left alone.

Asserted by counters and by what clients own: how long anything takes is for the benchmark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import Reader, shared_out
from tests.tier.python_readers import AiokafkaReader, KafkaPythonReader, wait_until
from tests.tier.scrape import ONE_NODE, scraped

pytestmark = pytest.mark.clients

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
MEMBERS = 3
HEARTBEATS = 6
"""How many heartbeats of an idle member prove that it is left alone."""


@pytest.fixture(scope="module")
def holding() -> Iterator[Tier]:
    clients = "apache-kafka-java,librdkafka,confluent-kafka-*,*/*rdkafka-*,kafka-python:classic"
    flags = (*ONE_NODE, "--set", "group.initial.rebalance.delay.ms=200")
    flags = (*flags, "--set", f"group.heartbeat.hold.clients={clients}")
    with Tier(*flags, port=free_ports(1)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("held", 6, 1)])["held"].result(DEADLINE_S)
        yield running


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


def readers_of(tier: Tier, group_id: str, protocol: str, count: int) -> list[Reader]:
    return [Reader(tier.bootstrap, "held", group_id, **{"group.protocol": protocol}) for _ in range(count)]


@BOTH
def test_a_join_and_a_leave_reach_a_settled_group_as_news(
    holding: Tier, group_id: str, protocol: str
) -> None:
    *settled, newcomer = readers_of(holding, group_id, protocol, MEMBERS + 1)
    for reader in settled:
        reader.start()
    shared_out(settled)
    until(held(holding, MEMBERS), "every member's heartbeat is held")
    counts = Counts(holding)
    newcomer.start()
    shared_out([*settled, newcomer])
    assert counts.ended("news") >= MEMBERS
    until(held(holding, MEMBERS + 1), "every member's heartbeat is held again")
    counts = Counts(holding)
    newcomer.stop()
    shared_out(settled)
    assert counts.ended("news") >= MEMBERS
    assert [reader.lost for reader in settled] == [0] * MEMBERS
    for reader in settled:
        reader.stop()


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
