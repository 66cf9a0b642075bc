"""The figures of bench/README.md, measured on this machine: CPU per request, failover, start, memory.

CPU is user + system time of the tier's actors, from their own accounting, divided by the requests that
were answered; the load generator's CPU is not in it. Every figure comes with what it was divided by.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from actors.protocol.java_hash import partition_for
from bench.ground.throwaway import Tier, pss_mib
from bench.peers import load
from bench.peers.generators import Generators
from bench.peers.load import RISES, Servers, Target
from bench.peers.members import Member, first_served_heartbeat
from bench.peers.settling import settle_group

JOIN_DELAY_MS = 300
"""The initial rebalance delay, long enough for a group's members to come into one generation."""
GROUPS = 40
GROUPS_AT_ONCE = 10
MEMBERS_PER_GROUP = 5
TOPIC = "bench"
TOPIC_PARTITIONS = 10
FAILOVER_GROUPS = 100
LAG_MAX = 100


class Figure(NamedTuple):
    """One figure, a line of the table."""

    name: str
    value: float
    unit: str
    note: str


def measure(say: Callable[[str], None], seconds: float, kills: int) -> list[Figure]:
    """Measure all figures, in the order of the table in bench/README.md."""
    figures = []
    say("one node, one copy: start")
    with Tier("--nodes", "1", "--replicas", "1") as tier:
        figures.append(Figure("start, 1 node, 1 copy", tier.ready_s, "s", "command to ready"))
    say("three nodes, three copies: start")
    flags = ("--set", f"group.initial.rebalance.delay.ms={JOIN_DELAY_MS}")
    with Tier(*flags) as tier:
        figures.append(Figure("start, 3 nodes, 3 copies", tier.ready_s, "s", "command to ready"))
        memory = pss_mib(tier.processes())
        figures.append(Figure("memory after start", memory, "MiB", "PSS of all processes, Ray included"))
        figures += _loads(tier, say, seconds)
        figures += asyncio.run(_failovers(tier, say, kills))
    return figures


def _loads(tier: Tier, say: Callable[[str], None], seconds: float) -> list[Figure]:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{tier.port}"})
    admin.create_topics([NewTopic(TOPIC, TOPIC_PARTITIONS, 1)])[TOPIC].result(20)
    say(f"{GROUPS} groups of {MEMBERS_PER_GROUP} members join")
    members = asyncio.run(settle_groups(tier, "bench", GROUPS, MEMBERS_PER_GROUP))
    beats = [Target(m.host, m.port, "heartbeat", 4, [m.heartbeat_frame()]) for m in members]
    commits = [
        Target(
            m.host,
            m.port,
            "offset_commit",
            8,
            [m.commit_frame(TOPIC, TOPIC_PARTITIONS, RISES)],
        ).risen
        for m in members
    ]
    pids = tier.pids()
    figures = []
    with contextlib.closing(Generators()) as generators:
        for name, targets in (
            ("classic heartbeat", beats),
            ("OffsetCommit of 10 partitions, 3 copies", commits),
        ):
            say(f"{name}: {len(targets)} connections, closed loop, {seconds:.0f} s")
            figures.append(_cpu_per_request(generators, name, pids, targets, seconds))
    return figures


async def settle_groups(tier: Tier, prefix: str, groups: int, size: int) -> list[Member]:
    members: list[Member] = []
    for first in range(0, groups, GROUPS_AT_ONCE):
        numbers = range(first, min(first + GROUPS_AT_ONCE, groups))
        settling = (settle_group(("127.0.0.1", tier.port), f"{prefix}-{n}", size) for n in numbers)
        members += [member for group in await asyncio.gather(*settling) for member in group]
    return members


def _cpu_per_request(
    generators: Generators, name: str, pids: list[int], targets: list[Target], seconds: float
) -> Figure:
    servers = Servers(pids, pids)
    load.drive(generators, servers, targets, min(2.0, seconds))
    sample = load.drive(generators, servers, targets, seconds)
    rate, p50 = sample.figures["per_s"], sample.figures["p50_ms"]
    note = f"{rate:,.0f}/s, p50 {p50:.1f} ms, load generator {sample.generator_share:.0%} of a core"
    return Figure(name, sample.figures["cpu_us"], "us CPU/request", note)


async def _failovers(tier: Tier, say: Callable[[str], None], kills: int) -> list[Figure]:
    say(f"failover: {FAILOVER_GROUPS} groups, {kills} kills of a leader")
    members = await settle_groups(tier, "failover", FAILOVER_GROUPS, 1)
    bootstraps = [("127.0.0.1", tier.port + n) for n in range(3)]
    gaps: list[float] = []
    for number in range(kills):
        leader = await _a_leader(tier, number)
        partition, partitions = leader["partition"], len(tier.status()["partitions"])
        hit = [m for m in members if partition_for(m.group_id, partitions) == partition]
        os.kill(leader["pid"], signal.SIGKILL)
        killed_at = asyncio.get_running_loop().time()
        back = await asyncio.gather(*(first_served_heartbeat(bootstraps, member) for member in hit[:25]))
        gaps += [each - killed_at for each in back]
    median, worst = statistics.median(gaps), max(gaps)
    note = f"{len(gaps)} groups over {kills} kills"
    return [
        Figure("leader killed to next served heartbeat, p50", median * 1000, "ms", note),
        Figure("the same, max", worst * 1000, "ms", note),
    ]


async def _a_leader(tier: Tier, number: int) -> dict[str, Any]:
    """The leader of partition `number` modulo partitions, once all of its replicas are back."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        replicas = tier.replicas()
        partition = number % (1 + max(r["partition"] for r in replicas))
        of_partition = [r for r in replicas if r["partition"] == partition]
        leaders = [r for r in of_partition if r["serving"]]
        lags = [r["lag"] for r in of_partition]
        if len(leaders) == 1 and len(lags) == 3 and all(lag is not None and lag < LAG_MAX for lag in lags):
            return leaders[0]
        await asyncio.sleep(0.2)
    raise TimeoutError(f"partition {number}: its replicas did not come back")
