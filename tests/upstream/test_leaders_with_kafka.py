"""Leaders of __consumer_offsets on a real Kafka cluster follow Raft's: Kafka 4.4 and 4.3.

How long a swap takes is printed; `pytest -s` shows it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.upstream.partitions import Facts as LeaderFacts
from actors.upstream.partitions import RaftLeader
from actors.upstream.reconciling import Reconciling
from actors.upstream.requests import PREFERRED
from bench.peers.kafka_nodes import KafkaNodes
from tests.upstream.metadata_log import Image
from tests.upstream.site import TOPIC, Site, heartbeat, reassign

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

TIER = (1001, 1002, 1003)
PARTITIONS = 4
SWAPS = 12


def leads(site: Site, image: Image) -> bool:
    """Whether Kafka's leaders are Raft's."""
    ours = site.topic_id()
    return all(image.partitions[ours, index].leader == each.broker_id for index, each in site.leaders.items())


def is_whole(site: Site, image: Image) -> bool:
    """Whether all is as it should be: leaders, order, ISR, cordons, no strays."""
    ours = site.topic_id()
    for index, leader in site.leaders.items():
        state = image.partitions[ours, index]
        first, *_ = state.replicas
        moving = state.adding_replicas or state.removing_replicas
        alive = site.tier - site.dead
        if (
            moving
            or (state.leader, first) != (leader.broker_id, leader.broker_id)
            or not alive <= set(state.isr)
        ):
            return False
    if any(not image.brokers[each].cordoned_log_dirs for each in site.tier - site.dead):
        return False
    return not any(
        site.tier & set(state.replicas)
        for (topic_id, _), state in image.partitions.items()
        if topic_id != ours
    )


async def set_up(site: Site) -> None:
    """Register three nodes and give them the topic, which Kafka 4.4 gives to no broker that is cordoned."""
    await site.start(*TIER)
    for node in TIER:
        await heartbeat(site, node, cordoned=False)
    await site.create_offsets([TIER] * PARTITIONS)
    for node in TIER:
        await heartbeat(site, node, cordoned=True)
    site.leaders = {index: RaftLeader(1001, 1, TIER) for index in range(PARTITIONS)}


async def swap_time_ms(site: Site, leading: Reconciling[LeaderFacts], number: int) -> tuple[float, float]:
    """Elect others in Raft, and return after how long Kafka's leaders are the new ones, and all is whole."""
    site.leaders = {
        index: RaftLeader(TIER[(index + number) % 3], number + 2, TIER) for index in range(PARTITIONS)
    }
    began = time.monotonic()
    leading.look()
    await site.until(lambda image: leads(site, image), "Kafka's leaders are Raft's")
    led = time.monotonic() - began
    await site.until(lambda image: is_whole(site, image), "all is whole")
    return led * 1000, (time.monotonic() - began) * 1000


def test_leaders_follow_raft(kafka: KafkaNodes, version: str, tmp_path: Path) -> None:
    async def story() -> list[tuple[float, float]]:
        async with Site(kafka, tmp_path) as site:
            await set_up(site)
            async with site.leading() as leading:
                await site.until(lambda image: is_whole(site, image), "all is whole")
                return [await swap_time_ms(site, leading, number) for number in range(SWAPS)]

    led, whole = zip(*asyncio.run(story()), strict=True)
    print(f"\nKafka {version}, {PARTITIONS} leaders at once, ms: {spread(led)}; all whole: {spread(whole)}")


def spread(times: Sequence[float]) -> str:
    """Return the least, the middle and the most of some times."""
    return f"{min(times):.0f} / {statistics.median(times):.0f} / {max(times):.0f}"


def test_a_dead_leader_is_fenced_by_another_node(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> float:
        async with Site(kafka, tmp_path) as site:
            await set_up(site)
            async with site.leading() as leading:
                await site.until(lambda image: is_whole(site, image), "all is whole")
                await site.kill(1001)
                site.dead.add(1001)
                site.leaders = {
                    index: RaftLeader((1002, 1003)[index % 2], 2, TIER) for index in range(PARTITIONS)
                }
                began = time.monotonic()
                leading.look()
                await site.until(lambda image: leads(site, image), "the others lead")
                led_ms = (time.monotonic() - began) * 1000
                await site.until(lambda image: image.brokers[1001].fenced, "it is fenced")
                await site.start(1001)
                await site.until(lambda image: is_whole(site, image), "it is a replica again")
            return led_ms

    print(f"\ndead leader replaced after {asyncio.run(story()):.0f} ms")


def test_what_others_move_is_moved_back(kafka: KafkaNodes, tmp_path: Path) -> None:
    """While the reconcile runs, cordons keep Kafka 4.4 from being told such moves at all."""

    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            await set_up(site)
            for replicas in ([1002, 1003], [1, 1002, 1003], [1], [1003, 1002, 1001]):
                for node in TIER:
                    await heartbeat(site, node, cordoned=False)
                await reassign(site, TOPIC, 0, replicas)
                await elect_preferred(site)
                async with site.leading():
                    await site.until(lambda image: is_whole(site, image), f"all is whole after {replicas}")

    asyncio.run(story())


async def elect_preferred(site: Site) -> None:
    """Do what brokers' automatic balancing does."""
    answer = await site.broker.call(
        "elect_leaders", 2, election_type=PREFERRED, topic_partitions=None, timeout=5_000
    )
    assert answer["error_code"].value == 0, answer


def test_strays_leave_the_tier(kafka: KafkaNodes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Site(kafka, tmp_path) as site:
            await set_up(site)
            for node in TIER:
                await heartbeat(site, node, cordoned=False)
            placed = await site.place("strays", 8)
            assert any(replicas != [1] for replicas in placed)
            async with site.leading():
                image = await site.until(lambda image: is_whole(site, image), "all strays are gone")
                strays = site.topic_id("strays")
                states = [image.partitions[strays, index] for index in range(8)]
                assert [(state.replicas, state.leader) for state in states] == [((1,), 1)] * 8

    asyncio.run(story())
