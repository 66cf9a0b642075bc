"""Work 4: one KIP-848 group of 1,000 members and 10,000 partitions: it forms, one leaves, one joins, a topic
grows; each until every partition is owned by its new owner."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Final, NamedTuple

import uvloop

from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from bench.peers import topics
from bench.peers.consumer import ConsumerGroup, Crowd, Step
from bench.peers.lines import Address, Line, coordinators, open_all
from bench.peers.options import Failed, Options
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario, kept, saturated

GROUP_RESOURCE: Final = 32
PARTITIONS_EACH: Final = 100
GROWTH: Final = 100
BUSY_INTERVAL_MS: Final = 1_000
"""The heartbeat interval up to which members are a load; at longer ones peers mostly wait, and do so
together."""
_one_joins: Final = threading.Lock()
"""Held during the first step, which is a load at any interval: one peer at a time goes through it."""
STEPS: Final = ("all join", "one leaves", "one joins", "a topic grows")


class Shape(NamedTuple):
    """The size of the group."""

    members: int
    topics: int


def scenarios(options: Options) -> list[Scenario]:
    """The same group at the default heartbeat interval, and at one second."""
    shape = Shape(options.size(1_000, 20), options.size(100, 2))
    shown = tuple(f"{step}:{figure}" for figure in ("seconds", "cpu_s") for step in STEPS)
    limits = {f"{STEPS[0]}:seconds": 1.5, f"{STEPS[0]}:cpu_s": 3.0}
    goals = {(ours, figure): limits[figure] for ours in ("groupd-1", "groupd-3") for figure in limits}
    intervals = (1_000,) if options.quick else (1_000, 5_000)
    return [
        Scenario(
            work=4,
            heading=f"KIP-848 group of {shape.members:,} and "
            f"{shape.topics * PARTITIONS_EACH:,} partitions until stable",
            label=f"{interval_ms / 1000:g} s",
            measure=partial(measure, shape, interval_ms),
            shown=shown,
            warm_up="big group",
            together=interval_ms > BUSY_INTERVAL_MS,
            goals=goals if interval_ms == 1_000 else {},
        )
        for interval_ms in intervals
    ]


def measure(shape: Shape, interval_ms: int, peer: Peer) -> Sample:
    """Measure a group of this shape through all its steps."""
    peer.needs_groups()
    peer.version(CONSUMER_GROUP_HEARTBEAT, 1)
    lasting = {f"big-{number:03}": PARTITIONS_EACH for number in range(shape.topics - 1)}
    kept(peer, "big topics", lambda: topics.create(peer, lasting))
    numbers: list[int] = kept(peer, "big groups", list)
    numbers.append(len(numbers))
    growing = {f"big-growing-{numbers[-1]}": PARTITIONS_EACH}
    topics.create(peer, growing)
    steps = uvloop.run(_lives(peer, f"big-{numbers[-1]}", shape, interval_ms, lasting | growing))
    figures: dict[str, float] = {}
    for name, step in steps.items():
        figures |= {f"{name}:seconds": step.seconds, f"{name}:cpu_s": step.cpu_s}
    share = max(step.generator_share for step in steps.values())
    return Sample(
        figures=figures,
        requests=sum(step.requests for step in steps.values()),
        generator_share=share,
        marks=saturated(share),
    )


async def _lives(
    peer: Peer, group_id: str, shape: Shape, interval_ms: int, made: dict[str, int]
) -> dict[str, Step]:
    await _set_interval(peer, group_id, interval_ms)
    address = (await coordinators(peer.bootstrap[0], [group_id]))[group_id]
    group, crowd = ConsumerGroup(group_id, list(made), sum(made.values())), Crowd(peer)
    steps = {}
    try:
        with _one_joins:
            for line in await open_all([address] * shape.members):
                crowd.add(line, group)
            steps[STEPS[0]] = await crowd.step([group], crowd.join)
        steps[STEPS[1]] = await _leave(crowd, group)
        steps[STEPS[2]] = await _join_one(crowd, group, address)
        steps[STEPS[3]] = await _grow(peer, crowd, group, made)
        await crowd.leave_all()
    finally:
        await crowd.stop()
        crowd.close()
    return steps


async def _leave(crowd: Crowd, group: ConsumerGroup) -> Step:
    def act() -> None:
        group.expect()
        crowd.leave(0)

    return await crowd.step([group], act)


async def _join_one(crowd: Crowd, group: ConsumerGroup, address: Address) -> Step:
    line = await Line.open(address)
    group.expect()
    crowd.add(line, group)
    return await crowd.step([group], crowd.join)


async def _grow(peer: Peer, crowd: Crowd, group: ConsumerGroup, made: dict[str, int]) -> Step:
    topic = list(made)[-1]
    made[topic] += GROWTH

    def act() -> asyncio.Future[None]:
        group.expect(sum(made.values()))
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(None, topics.grow, peer, topic, made[topic])

    return await crowd.step([group], act)


async def _set_interval(peer: Peer, group_id: str, interval_ms: int) -> None:
    config = {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": str(interval_ms)}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group_id, "configs": [config]}
    line = await Line.open(peer.bootstrap[0])
    try:
        answer = await line.call("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    finally:
        line.close()
    (told,) = answer["responses"]
    if told["error_code"]:
        raise Failed(f"the interval of a group cannot be set: error {told['error_code']}")
