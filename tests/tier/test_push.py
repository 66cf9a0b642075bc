"""Consumers of a group whose coordinator pushes, on a real tier (D1, D2, D3, D10): they read records, share
partitions, and go on when their coordinator is killed. Kafka's clients see their group as any other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError

from actors.protocol.java_hash import partition_for
from actors.protocol.push_messages import TopicCount
from bench.ground.throwaway import Tier
from bench.member.push import Place, PushMember, PushTerms
from bench.push.consumer import PushConsumer
from tests.polling import reached, until
from tests.tier.conftest import kill
from tests.tier.consumers import produce_values
from tests.tier.python_readers import living
from tests.tier.test_failover import leader_of

pytestmark = pytest.mark.clients

SESSION_MS = 6_000
PARTITIONS = 6


class Reading:
    """A consumer that remembers what it has read."""

    def __init__(self, tier: Tier, group_id: str, consumer_id: str, topic: str) -> None:
        terms = PushTerms(group_id, (TopicCount(topic, False, 1),), session_timeout_ms=SESSION_MS)
        self.member = PushMember(terms, consumer_id)
        self.seen: list[bytes | None] = []
        bootstrap = [("127.0.0.1", tier.port + number) for number in range(3)]
        self.consumer = PushConsumer(bootstrap, self.member, self._saw)

    def _saw(self, place: Place, offset: int, value: bytes | None) -> None:
        self.seen.append(value)

    @property
    def owned(self) -> int:
        return len(self.member.positions) if self.member.is_fetching else 0


@asynccontextmanager
async def reading(tier: Tier, group_id: str, topic: str, *names: str) -> AsyncIterator[list[Reading]]:
    """Let consumers read for as long as the context lasts."""
    readers = [Reading(tier, group_id, name, topic) for name in names]
    async with living(each.consumer for each in readers):
        yield readers


def test_two_consumers_share_a_topic_and_read_all_of_it(tier: Tier, topic: str, group_id: str) -> None:
    async def story() -> None:
        values = [b"value-%d" % number for number in range(60)]
        async with reading(tier, group_id, topic, "a", "b") as readers:
            await reached(lambda: [each.owned for each in readers] == [3, 3])
            await asyncio.to_thread(produce_values, tier.bootstrap, topic, values)
            await reached(lambda: {value for each in readers for value in each.seen} == set(values))
            for each in readers:
                each.member.close()
            await reached(lambda: all(each.member.is_done for each in readers))
        shown = await asyncio.to_thread(tier.run, "groups", "describe", group_id, "--state")
        assert "Empty" in shown
        shown = await asyncio.to_thread(tier.run, "groups", "describe", group_id, "--json")
        assert json.loads(shown)["type"] == "Push"
        async with reading(tier, group_id, topic, "c") as [third]:
            await reached(lambda: third.owned == PARTITIONS)
            await asyncio.to_thread(produce_values, tier.bootstrap, topic, [b"next"])
            await reached(lambda: third.seen == [b"next"])

    asyncio.run(story())


def test_tools_show_the_group(tier: Tier, topic: str, group_id: str) -> None:
    async def story() -> None:
        async with reading(tier, group_id, topic, "a") as [reader]:
            await reached(lambda: reader.owned == PARTITIONS)
            listed = await asyncio.to_thread(tier.run, "groups", "list")
            assert [line for line in listed.splitlines() if group_id in line and "Push" in line]
            shown = await asyncio.to_thread(tier.run, "groups", "describe", group_id, "--state")
            assert "Stable" in shown
            explained = await asyncio.to_thread(tier.run, "explain", group_id)
            assert "every partition is read" in explained

    asyncio.run(story())


def test_consumers_go_on_when_their_coordinator_is_killed(tier: Tier, topic: str, group_id: str) -> None:
    async def story() -> None:
        async with reading(tier, group_id, topic, "a", "b") as readers:
            await reached(lambda: [each.owned for each in readers] == [3, 3])
            partition = partition_for(group_id, len(tier.status()["partitions"]))
            leader = await asyncio.to_thread(leader_of, tier, partition)
            kill(leader["pid"])
            await reached(lambda: all(each.consumer.registrations == 2 for each in readers))
            await reached(lambda: [each.owned for each in readers] == [3, 3])
            await asyncio.to_thread(produce_values, tier.bootstrap, topic, [b"x"])
            await reached(lambda: [value for each in readers for value in each.seen] == [b"x"])

    asyncio.run(story())


def test_offsets_of_a_push_group_are_reset_when_its_consumers_have_left(
    tier: Tier, topic: str, group_id: str
) -> None:
    """D13, O12, O13: while one is there nothing is reset, robbed or deleted, and members of other protocols
    do not get in."""
    values = [b"value-%d" % number for number in range(12)]
    where = ("groups", "reset-offsets", group_id, "--topic", topic, "--to-earliest", "--execute")

    async def run(*arguments: str) -> str:
        return await asyncio.to_thread(partial(tier.run, fine=(0, 1)), *arguments)

    async def story() -> None:
        await asyncio.to_thread(produce_values, tier.bootstrap, topic, values)
        async with reading(tier, group_id, topic, "a") as [first]:
            await reached(lambda: set(first.seen) == set(values))
            error = await asyncio.to_thread(_join, tier.bootstrap, group_id, topic)
            assert error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
            assert "NEW-OFFSET" not in await run(*where)
            assert "Deleted" not in await run("groups", "delete", group_id)
            first.member.close()
            await reached(lambda: first.member.is_done)
        assert "NEW-OFFSET" in await run(*where)
        async with reading(tier, group_id, topic, "b") as [second]:
            await reached(lambda: sorted(second.seen) == sorted(values))
            second.member.close()
            await reached(lambda: second.member.is_done)
        assert "Deleted" in await run("groups", "delete", group_id)

    asyncio.run(story())


def _join(bootstrap: str, group_id: str, topic: str) -> KafkaError:
    """Let a member of the classic protocol try to join. Returns what it is told."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    try:
        consumer.subscribe([topic])
        message = until(lambda: consumer.poll(0.1), "an error")
        error = message.error()
        assert isinstance(error, KafkaError)
        return error
    finally:
        consumer.close()
