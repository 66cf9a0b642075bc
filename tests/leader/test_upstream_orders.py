"""The leader of an offsets partition follows, serves and drops Kafka's log as ordered, with real Raft."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.coordinator.shard import CoordinatorShard
from actors.leader import upstream_orders
from actors.upstream.orders import (
    DROP,
    FOLLOWED,
    LOOK,
    NOTHING,
    RETAKE,
    RETAKEN,
    SERVE,
    SERVED,
    Order,
    Standing,
    unpack_standing,
)
from tests.polling import reached
from tests.upstream.offsets_log.logs import commit
from tests.upstream.replicas import Replicas, replicas
from tests.upstream.scripted_leader import TIER, ScriptedLeader


@asynccontextmanager
async def followed(directory: Path, count: int = 1) -> AsyncIterator[tuple[Replicas, ScriptedLeader]]:
    async with ScriptedLeader().listening() as leader, replicas(directory, count) as group:
        yield group, leader


def run(
    directory: Path, story: Callable[[Replicas, ScriptedLeader], Awaitable[None]], count: int = 1
) -> None:
    async def whole() -> None:
        async with followed(directory, count) as (group, leader):
            await story(group, leader)

    asyncio.run(whole())


def offsets(shard: CoordinatorShard) -> dict[int, int]:
    """What the group has committed, by partition."""
    return {partition: value.offset for (_, partition), value in shard.state.offsets.get("g", {}).items()}


def test_a_log_is_followed_to_its_end_and_served(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1), commit("g", 1, 2))
        standing = await group.until(leader.order(), FOLLOWED, at_end=True)
        assert standing == Standing(FOLLOWED, 2, True, 2)
        await reached(lambda: set(leader.in_sync) == set(TIER), "all are in sync")
        end = leader.append(commit("g", 0, 3))
        await leader.acknowledged(end)
        standing = await group.until(leader.order(SERVE), SERVED)
        assert (standing.next_offset, standing.problem) == (3, None)
        assert offsets(await group.shard()) == {0: 3, 1: 2}
        fetches = len(leader.fetches)
        standing = await group.until(leader.order(SERVE), SERVED)
        assert (standing.phase, len(leader.fetches)) == (SERVED, fetches)

    run(tmp_path, story)


def test_a_topic_that_was_made_for_the_tier_is_served_from_its_beginning(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        standing = await group.until(Order(SERVE, leader.topic_id), SERVED)
        assert standing == Standing(SERVED)

    run(tmp_path, story)


def test_what_is_dropped_leaves_nothing_and_may_be_followed_again(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1))
        await group.until(leader.order(), FOLLOWED, at_end=True)
        standing = await group.until(Order(DROP), NOTHING)
        assert (standing.next_offset, standing.problem) == (0, None)
        assert offsets(await group.shard()) == {}
        await group.until(leader.order(), FOLLOWED, at_end=True)
        assert (await group.until(leader.order(SERVE), SERVED)).next_offset == 1

    run(tmp_path, story)


def test_what_brokers_have_is_dropped(tmp_path: Path) -> None:
    """What the next leader lacks was never acknowledged."""

    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1))
        leader.lags_at = 1
        leader.append(commit("g", 0, 2))
        await group.until(leader.order(), FOLLOWED, at_end=True)
        standing = await _problem(group, leader.order(DROP)._replace(source=None), "nobody is known to lead")
        assert (standing.phase, standing.next_offset) == (FOLLOWED, 2)
        leader.lead_anew(1)
        await group.until(leader.order(DROP), NOTHING)

    run(tmp_path, story)


def test_what_kafka_had_acknowledged_and_lacks_is_not_dropped(tmp_path: Path) -> None:
    """A broker was elected that was not in sync, when the tier led and had served nothing yet."""

    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1), commit("g", 1, 2))
        await group.until(leader.order(), FOLLOWED, at_end=True)
        for _ in range(2):  # our node led in between
            leader.lead_anew(0)
        leader.append(commit("g", 1, 7))
        await group.until(leader.order(DROP), RETAKEN)
        await group.until(leader.order(), RETAKEN, at_end=True)
        await group.until(leader.order(SERVE)._replace(led_epoch=leader.epoch + 1), SERVED)
        assert offsets(await group.shard()) == {0: 1, 1: 7}

    run(tmp_path, story)


def test_what_is_served_is_neither_followed_nor_dropped(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1))
        await group.until(leader.order(), FOLLOWED, at_end=True)
        await group.until(leader.order(SERVE), SERVED)
        for order in (Order(DROP, leader.topic_id), leader.order()):
            await group.order(order)
            standing = await _problem(group, order, "served")
            assert standing.phase == SERVED

    run(tmp_path, story)


async def _problem(group: Replicas, order: Order, words: str) -> Standing:
    """Wait until the order is said to be impossible in these words."""
    async with asyncio.timeout(10):
        while words not in ((standing := await group.order(order)).problem or ""):
            await asyncio.sleep(0.01)
    return standing


def test_nothing_is_served_that_ends_before_what_kafka_has_acknowledged(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        for partition in range(3):
            leader.lags_at = 2
            leader.append(commit("g", partition, 1))
        await group.until(leader.order(), FOLLOWED, at_end=True)
        leader.most_bytes = 1
        leader.lead_anew(2)
        leader.append(commit("g", 0, 7))
        leader.replicas = {}
        await _problem(group, leader.order(), "UNKNOWN_LEADER_EPOCH")
        leader.on_fetch = lambda broker_id, offset: leader.replicas.clear() if offset == 1 else None
        leader.replicas = {each: 10 + each for each in TIER}
        await reached(lambda: not leader.replicas, "the first half is fetched once more")
        assert (await group.until(leader.order(), FOLLOWED)).next_offset == 1
        await _problem(group, leader.order(SERVE), "Kafka counts on all before")
        leader.on_fetch = lambda broker_id, offset: None
        leader.replicas = {each: 10 + each for each in TIER}
        await group.until(leader.order(), FOLLOWED, at_end=True)
        await group.until(leader.order(SERVE), SERVED)
        assert offsets(await group.shard()) == {0: 7, 1: 1}

    run(tmp_path, story)


def test_who_hears_of_no_order_follows_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_orders, "ORDERED_S", 0.2)

    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1))
        await group.order(leader.order())
        orders = (await group.leader())._orders
        assert orders is not None
        work = orders._work
        assert work is not None
        await reached(work.done, "it has ended")
        leader.append(commit("g", 0, 2))
        assert (await group.look()).next_offset == 1
        assert (await group.until(leader.order(), FOLLOWED, at_end=True)).next_offset == 2

    run(tmp_path, story)


def test_what_a_broker_was_made_to_lead_is_taken_on_top(tmp_path: Path) -> None:
    """The log of the broker is empty, and begins with what it acknowledges itself."""

    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leader.append(commit("g", 0, 1), commit("g", 1, 2))
        await group.until(leader.order(), FOLLOWED, at_end=True)
        await group.until(leader.order(SERVE)._replace(led_epoch=leader.epoch + 1), SERVED)
        for _ in range(2):  # our node led in between
            leader.lead_anew(0)
        leader.append(commit("g", 1, 7))
        assert (await group.until(leader.order(RETAKE), RETAKEN)).next_offset == 0
        standing = await group.until(leader.order(), RETAKEN, at_end=True)
        assert (standing.next_offset, standing.problem) == (1, None)
        await group.until(leader.order(SERVE)._replace(led_epoch=leader.epoch + 1), SERVED)
        assert offsets(await group.shard()) == {0: 1, 1: 7}

    run(tmp_path, story)


def test_what_this_release_cannot_do_is_said(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        actor = await group.leader()
        answer = unpack_standing(await actor.upstream(b"\xc1"))
        assert (answer.phase, answer.leads) == (NOTHING, True)
        assert "cannot be read" in (answer.problem or "")

    run(tmp_path, story)


def test_who_does_not_lead_says_so(tmp_path: Path) -> None:
    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        leads = await group.leader()
        for actor in group.actors:
            answer = unpack_standing(await actor.upstream(Order(LOOK).pack()))
            assert answer.leads == (actor is leads)

    run(tmp_path, story, count=3)


def test_the_next_leader_goes_on_where_the_one_before_was(tmp_path: Path) -> None:
    """The old leader is cut off while commits come, and goes on fetching as long as it may: nothing is
    acknowledged that the next one lacks."""

    async def story(group: Replicas, leader: ScriptedLeader) -> None:
        for number in range(40):
            end = leader.append(commit("g", number % 5, number))
            if number in (10, 25):
                await group.until(leader.order(), FOLLOWED, at_end=True)
                await reached(lambda: set(leader.in_sync) == set(TIER), "all are in sync")
            if number == 20:
                await group.cut_off()
            await group.order(leader.order())
        await group.until(leader.order(), FOLLOWED, at_end=True)
        await leader.acknowledged(end)
        standing = await group.until(leader.order(SERVE), SERVED)
        assert standing.next_offset == 40
        assert 0 < standing.records < 40, "it has not begun anew"
        assert offsets(await group.shard()) == {each: 35 + each for each in range(5)}

    run(tmp_path, story, count=3)
