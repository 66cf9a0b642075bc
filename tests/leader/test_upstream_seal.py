"""The leader of an offsets partition seals it as ordered, and takes the seal back, with real Raft."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from actors.upstream.orders import DROP, LOOK, NOTHING, RELEASE, SEAL, SEALED, SERVE, SERVED, UNSEAL, Order
from tests.upstream.replicas import Replicas, replicas
from tests.upstream.scripted_leader import TOPIC_ID


def order(name: str) -> Order:
    return Order(name, TOPIC_ID)


def run(directory: Path, story: Callable[[Replicas], Awaitable[None]], count: int = 1) -> None:
    async def whole() -> None:
        async with replicas(directory, count) as group:
            await group.until(order(SERVE), SERVED)
            await story(group)

    asyncio.run(whole())


async def released(group: Replicas, led_epoch: int) -> None:
    """Have the leader note that brokers have everything."""
    async with asyncio.timeout(10):
        while (await group.order(Order(RELEASE, TOPIC_ID, led_epoch=led_epoch))).released_epoch != led_epoch:
            await asyncio.sleep(0.01)


def test_sealed_groups_are_served_again_when_that_is_ordered(tmp_path: Path) -> None:
    async def story(group: Replicas) -> None:
        standing = await group.until(order(SEAL), SEALED)
        assert standing.problem is None
        assert (await group.shard()).state.is_closed
        assert (await group.until(order(UNSEAL), SERVED)).problem is None
        assert not (await group.shard()).state.is_closed

    run(tmp_path, story)


def test_an_order_to_serve_does_not_break_the_seal(tmp_path: Path) -> None:
    async def story(group: Replicas) -> None:
        await group.until(order(SEAL), SEALED)
        for _ in range(3):
            assert (await group.order(order(SERVE))).phase == SEALED
        assert (await group.order(order(LOOK))).phase == SEALED

    run(tmp_path, story)


def test_what_is_sealed_can_be_removed(tmp_path: Path) -> None:
    async def story(group: Replicas) -> None:
        await group.until(order(SEAL), SEALED)
        for _ in range(3):
            assert (await group.order(order(DROP))).phase == SEALED, "nobody has said that brokers have it"
        await released(group, 4)
        await group.until(order(DROP), NOTHING)
        assert (await group.until(order(SERVE), SERVED)).problem is None, "another topic may come"

    run(tmp_path, story)


def test_the_next_leader_holds_the_seal_and_takes_it_back(tmp_path: Path) -> None:
    async def story(group: Replicas) -> None:
        await group.until(order(SEAL), SEALED)
        await group.cut_off()
        assert (await group.look()).phase == SEALED
        await group.until(order(UNSEAL), SERVED)

    run(tmp_path, story, count=3)
