"""Leaders, brokers and controllers killed with SIGKILL under load: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest

from actors.network.wire import Closed, Wire
from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier
from bench.peers.members import Member, find_coordinator
from bench.peers.settling import settle_group
from tests.polling import DEADLINE_S, until
from tests.tier.committer import RETRY_S, Committer, check
from tests.tier.conftest import kill

pytestmark = pytest.mark.clients

GROUPS = 12
LAG_MAX = 100
"""Entries: under load a follower is always a few behind."""


def leader_of(tier: Tier, partition: int) -> dict[str, Any]:
    """The leader's status, once the partition has all its replicas and none lags much."""

    def whole() -> dict[str, Any] | None:
        replicas = [r for r in tier.replicas() if r["partition"] == partition]
        leaders = [r for r in replicas if r.get("serving")]
        if len(replicas) < 3 or len(leaders) != 1:
            return None
        lags = [replica["lag"] for replica in replicas]
        return leaders[0] if all(lag is not None and lag <= LAG_MAX for lag in lags) else None

    leader: dict[str, Any] = until(whole, f"partition {partition} is whole", 60)
    return leader


def bootstraps(tier: Tier) -> list[tuple[str, int]]:
    return [("127.0.0.1", tier.port + n) for n in range(3)]


async def through_kills(tier: Tier, topic: str, prefix: str, kills: int) -> list[Committer]:
    """`GROUPS` members commit without pause while `kills` leaders are killed in turn."""
    committers = []
    for number in range(GROUPS):
        (member,) = await settle_group(("127.0.0.1", tier.port), f"{prefix}-{number}", 1)
        committers.append(Committer(bootstraps(tier), member, topic))
    halt = asyncio.Event()
    running = [asyncio.create_task(committer.run(halt)) for committer in committers]
    for number in range(kills):
        leader = await asyncio.to_thread(leader_of, tier, number % 4)
        before = [committer.acknowledged for committer in committers]
        kill(leader["pid"])
        await asyncio.to_thread(
            until,
            lambda before=before: all(
                c.refusals or c.acknowledged > b + 5 for c, b in zip(committers, before, strict=True)
            ),
            "every group commits again",
        )
    halt.set()
    await asyncio.wait_for(asyncio.gather(*running), DEADLINE_S)
    return committers


def test_killed_leaders_lose_no_commit_and_no_member(tier: Tier, topic: str, group_id: str) -> None:
    """C26, M26: two leaders die under load; each group goes on in the generation it had."""

    async def story() -> None:
        await check(await through_kills(tier, topic, group_id, 2))

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_killed_leaders_lose_no_commit_and_no_member(tier: Tier, topic: str, group_id: str) -> None:
    async def story() -> None:
        await check(await through_kills(tier, topic, group_id, 20))

    asyncio.run(story())


def test_frozen_leader_is_replaced_and_comes_back_as_a_follower(
    tier: Tier, topic: str, group_id: str
) -> None:
    """A process that sleeps (SIGSTOP) closes no connection: silence deposes it, its term fences it."""

    async def story() -> None:
        (member,) = await settle_group(("127.0.0.1", tier.port), group_id, 1)
        committer = Committer(bootstraps(tier), member, topic)
        halt = asyncio.Event()
        running = asyncio.create_task(committer.run(halt))
        partition = partition_for(group_id, 4)
        leader = await asyncio.to_thread(leader_of, tier, partition)
        os.kill(leader["pid"], signal.SIGSTOP)
        try:
            before = committer.acknowledged
            await asyncio.to_thread(
                until, lambda: committer.acknowledged > before + 20, "commits go on without the frozen leader"
            )
        finally:
            os.kill(leader["pid"], signal.SIGCONT)
        again = await asyncio.to_thread(leader_of, tier, partition)
        assert again["term"] > leader["term"]
        assert leader["pid"] in [r["pid"] for r in tier.replicas()], "the process that woke is a follower now"
        halt.set()
        await asyncio.wait_for(running, DEADLINE_S)
        await check([committer])

    asyncio.run(story())


def test_offset_fetch_at_a_killed_leaders_node_reaches_the_new_leader(
    tier: Tier, topic: str, group_id: str
) -> None:
    """The node lives on, so its clients' retries may be faster than the election. librdkafka never repeats an
    OffsetFetch after NOT_COORDINATOR: its member would own partitions that nobody consumes."""

    nobody = Member(group_id, "", -1, "", 0)

    async def asked(node: tuple[str, int], api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Ask this one node until somebody answers, as clients do whose connection is lost."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                wire = await Wire.connect(*node)
                try:
                    return await wire.call(api, version, **fields)
                finally:
                    await wire.close()
            except (OSError, Closed):
                await asyncio.sleep(RETRY_S)
        raise AssertionError("nobody answers")

    async def story() -> None:
        for offset in range(1, 5):
            leader = await asyncio.to_thread(leader_of, tier, partition_for(group_id, 4))
            node = await find_coordinator("127.0.0.1", tier.port, group_id)
            committed = await asked(node, "offset_commit", 8, **nobody.commit_fields(topic, 1, offset))
            assert committed["topics"][0]["partitions"][0]["error_code"] == 0
            kill(leader["pid"])
            answer = await asked(node, "offset_fetch", 7, group_id=group_id, topics=None)
            assert answer["error_code"] == 0
            [[partition]] = [topic["partitions"] for topic in answer["topics"]]
            assert partition["committed_offset"] == offset

    asyncio.run(story())


def test_killed_controller_leader_is_replaced(tier: Tier, admin: Any) -> None:
    """Topics can be created again, and those that were created are still there."""
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic("before-the-kill", 2, 1)])["before-the-kill"].result(DEADLINE_S)
    leader = until(
        lambda: next((c for c in tier.controllers() if c["serving"]), None),
        "a controller leads",
    )
    kill(leader["pid"])
    admin.create_topics([NewTopic("after-the-kill", 2, 1)])["after-the-kill"].result(DEADLINE_S)
    until(
        lambda: {"before-the-kill", "after-the-kill"} <= set(admin.list_topics(timeout=10).topics),
        "both topics are listed",
    )


def test_killed_broker_comes_back_on_its_port(tier: Tier, admin: Any) -> None:
    broker = tier.brokers()[1]
    kill(broker["pid"])

    def back() -> bool:
        rows = [b for b in tier.brokers() if b["node_id"] == broker["node_id"]]
        return any(row["pid"] != broker["pid"] and not row["problem"] for row in rows)

    until(back, "the broker is restarted")
    assert len(admin.list_topics(timeout=10).brokers) == 3
