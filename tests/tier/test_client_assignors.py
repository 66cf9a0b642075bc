"""Consumers whose group's members assign, on a real tier (A7, A9, A10): they read records, share partitions
by their capacities, and go on when their coordinator is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.assignors.by_members.weighted import CapacityWeighted
from actors.ground.limits import HANDED_BYTES_MAX
from actors.protocol.java_hash import partition_for
from bench.client_assignors.reader import ReadingConsumer
from bench.ground.throwaway import Tier
from bench.member.computing import ComputingMember, MemberAssignor
from bench.member.consumer import ConsumerTerms
from bench.swarm.records.requests import Partition
from tests.polling import reached
from tests.tier.conftest import kill
from tests.tier.consumers import produce_values
from tests.tier.python_readers import living
from tests.tier.test_failover import leader_of

pytestmark = pytest.mark.clients

PARTITIONS = 6


class Reading:
    """A consumer that remembers what it has read, and whether it computed."""

    def __init__(
        self, tier: Tier, group_id: str, topic: str, member_id: str, assignor: MemberAssignor
    ) -> None:
        member = ComputingMember(ConsumerTerms(group_id, (topic,)), f"{member_id}-{group_id}", [assignor])
        self.seen: list[bytes | None] = []
        self.taken = 0
        bootstrap = [("127.0.0.1", tier.port + number) for number in range(3)]
        self.consumer = ReadingConsumer(bootstrap, member, self._saw)
        self.consumer.on_installed = self._installed

    def _saw(self, place: Partition, offset: int, value: bytes | None) -> None:
        self.seen.append(value)

    def _installed(self, install: object, error: int, words: str | None) -> None:
        assert not error, words
        self.taken += 1

    @property
    def owned(self) -> int:
        return len(self.consumer.positions)


@asynccontextmanager
async def reading(tier: Tier, group_id: str, topic: str, **capacities: int) -> AsyncIterator[list[Reading]]:
    """Let consumers read for as long as the context lasts."""
    readers = [
        Reading(tier, group_id, topic, name, CapacityWeighted(each)) for name, each in capacities.items()
    ]
    async with living(each.consumer for each in readers):
        yield readers


class Talkative(CapacityWeighted):
    """An assignor that tells so much of its member that three of them are more than is handed out."""

    name = "talkative"

    def __init__(self) -> None:
        super().__init__()
        self.metadata = bytes(HANDED_BYTES_MAX // 5 * 2)


def test_members_share_a_topic_by_their_capacities_and_read_all_of_it(
    tier: Tier, topic: str, group_id: str
) -> None:
    async def story() -> None:
        values = [b"value-%d" % number for number in range(60)]
        async with reading(tier, group_id, topic, a=1, b=2) as readers:
            await reached(lambda: [each.owned for each in readers] == [2, 4])
            assert sum(each.taken for each in readers) > 0
            await asyncio.to_thread(produce_values, tier.bootstrap, topic, values)
            await reached(lambda: {value for each in readers for value in each.seen} == set(values))

    asyncio.run(story())


def test_members_go_on_computing_when_their_coordinator_is_killed(
    tier: Tier, topic: str, group_id: str
) -> None:
    async def story() -> None:
        async with reading(tier, group_id, topic, a=1, b=1) as readers:
            await reached(lambda: [each.owned for each in readers] == [3, 3])
            partition = partition_for(group_id, len(tier.status()["partitions"]))
            before = sum(each.taken for each in readers)
            leader = await asyncio.to_thread(leader_of, tier, partition)
            kill(leader["pid"])
            async with reading(tier, group_id, topic, c=1) as [third]:
                await reached(lambda: [each.owned for each in (*readers, third)] == [2, 2, 2])
                assert sum(each.taken for each in (*readers, third)) > before

    asyncio.run(story())


def test_a_group_too_large_to_be_handed_out_is_assigned_by_the_server(
    tier: Tier, topic: str, group_id: str
) -> None:
    """A9, A11: Prepare is refused, which is told, and the members get what the server's assignor gives."""

    async def story() -> None:
        readers = [Reading(tier, group_id, topic, name, Talkative()) for name in "abc"]
        async with living(each.consumer for each in readers[:2]):
            await reached(lambda: [each.owned for each in readers[:2]] == [3, 3])
            assert sum(each.taken for each in readers) > 0, "two are handed out"
            async with living([readers[2].consumer]):
                await reached(lambda: [each.owned for each in readers] == [2, 2, 2])
                told = await asyncio.to_thread(tier.run, "explain", group_id)
        assert "the group is too large to be handed out: the server's assignor assigns" in " ".join(
            told.split()
        )

    asyncio.run(story())
