"""Many consumers on one coordinator that pushes: what the design was made for (D1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import psutil
import uvloop
from rich.console import Console

from bench.ground.throwaway import Tier
from bench.hold.measure import SESSION_TIMEOUT_MS, TIER_FLAGS, TOPIC_PARTITIONS, create_topics
from bench.push.crew import PushCrew
from cluster.cli.tables import print_table

GROUP_OF_MANY: Final = 50
"""How many consumers a group has."""
MIB: Final = 1 << 20


class Many(NamedTuple):
    """What was seen of many consumers. CPU and memory are those of the coordinator's process alone."""

    consumers: int
    reading_s: float
    """Seconds from the first who registers until all read."""
    registering_cpu_s: float
    answers_a_second: float
    """Answers to pings, while nothing happens."""
    cpu_at_rest: float
    """Cores in use meanwhile."""
    still_reading: int
    """How many have read on meanwhile without having been stopped."""
    rebalance_s: float
    """Seconds until all read again after one consumer of each group has left, all at once."""
    rebalance_cpu_s: float
    requests: int
    """How many requests of both sides that took."""
    memory_mib: float


def measure(consumers: int, idle_s: float, say: Callable[[str], None]) -> Many:
    """Have so many consumers on one coordinator, let them be idle, and let some leave. Raises RuntimeError,
    TimeoutError."""
    flags = (*TIER_FLAGS, "--set", "offsets.topic.num.partitions=1", "--set", "max.connections=100000")
    with Tier(*flags, nodes=1) as tier:
        say(f"{consumers:,} consumers")
        [replica] = tier.replicas()
        return uvloop.run(_measured(tier.bootstrap, psutil.Process(replica["pid"]), consumers, idle_s, say))


async def _measured(
    bootstrap: str, coordinator: psutil.Process, consumers: int, idle_s: float, say: Callable[[str], None]
) -> Many:
    topics = await asyncio.to_thread(create_topics, bootstrap, GROUP_OF_MANY)
    host, _, port = bootstrap.rpartition(":")
    sizes = [min(GROUP_OF_MANY, consumers - first) for first in range(0, consumers, GROUP_OF_MANY)]
    crews = [
        PushCrew(
            f"{topics[0]}-{number}",
            topics,
            len(topics) * TOPIC_PARTITIONS,
            (host, int(port)),
            SESSION_TIMEOUT_MS,
        )
        for number in range(len(sizes))
    ]
    try:
        began, cpu_s = time.monotonic(), _cpu_s(coordinator)
        for crew, size in zip(crews, sizes, strict=True):
            await crew.add(size)
        reading_s, registering_cpu_s = time.monotonic() - began, _cpu_s(coordinator) - cpu_s
        say(f"all read after {reading_s:.1f} s")
        answers, cpu_s = _requests(crews), _cpu_s(coordinator)
        generations = [crew.generation_id for crew in crews]
        await asyncio.sleep(idle_s)
        answers, at_rest_s = _requests(crews) - answers, _cpu_s(coordinator) - cpu_s
        pairs = zip(crews, generations, strict=True)
        still = sum(crew.reading for crew, before in pairs if crew.generation_id == before)
        began, cpu_s, requests = time.monotonic(), _cpu_s(coordinator), _requests(crews)
        await asyncio.gather(*(crew.leave() for crew in crews))
        return Many(
            consumers,
            reading_s,
            registering_cpu_s,
            answers / idle_s,
            at_rest_s / idle_s,
            still,
            time.monotonic() - began,
            _cpu_s(coordinator) - cpu_s,
            _requests(crews) - requests,
            coordinator.memory_full_info().uss / MIB,
        )
    finally:
        await asyncio.gather(*(crew.stop() for crew in crews))


def _requests(crews: list[PushCrew]) -> int:
    return sum(crew.requests for crew in crews)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def show(console: Console, found: Many) -> None:
    rows = [
        ("consumers on one coordinator", f"{found.consumers:,}"),
        ("all of them read after", f"{found.reading_s:.1f} s, {found.registering_cpu_s:.1f} s of CPU"),
        ("at rest", f"{found.answers_a_second:,.0f} pings/s, {found.cpu_at_rest:.1%} of a core"),
        ("read on undisturbed meanwhile", f"{found.still_reading:,}"),
        ("one of each group leaves", f"all read again after {found.rebalance_s:.1f} s"),
        ("", f"{found.requests:,} requests, {found.rebalance_cpu_s:.1f} s of CPU"),
        ("memory", f"{found.memory_mib:,.0f} MiB"),
    ]
    print_table(console, None, rows)
    console.print("CPU and memory: of the coordinator's process")
