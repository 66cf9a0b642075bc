"""`groupd bench push`: how soon a group knows of a join and of a leave and reads again, by protocol."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import psutil
import uvloop
from rich.console import Console

from bench.ground.throwaway import Tier
from bench.hold.measure import (
    INTERVAL_S,
    SEED,
    SESSION_TIMEOUT_MS,
    TIER_FLAGS,
    TOPIC_PARTITIONS,
    Crew,
    create_topics,
)
from bench.peers.classic import Group, terms
from bench.peers.consumer import ConsumerGroup
from bench.peers.lines import coordinators
from bench.push import many
from bench.push.crew import PushCrew
from bench.push.many import Many
from cluster.cli.tables import Table

PROTOCOLS: Final = ("push", "classic", "classic, held", "consumer", "consumer, held")


class Row(NamedTuple):
    """The figures of one protocol at one size."""

    protocol: str
    members: int
    joins_s: list[float]
    leaves_s: list[float]
    known_s: list[float]
    """Seconds until the last of those who were there knew of a change, joins and leaves together."""
    again_s: list[float]
    """Seconds from there until all that is the group's is read again."""
    requests: float
    """How many requests of either side a change took."""
    cpu_ms: float
    """The processor time of the tier for one change."""
    idle_a_minute: float
    """The requests of one idle member per minute."""


def measure(sizes: tuple[int, ...], rounds: int, idle_s: float, say: Callable[[str], None]) -> list[Row]:
    """Measure each protocol at each size on a throw-away tier. Raises RuntimeError, TimeoutError."""
    rows = []
    with Tier(*TIER_FLAGS, nodes=1) as tier:
        for size in sizes:
            for protocol in PROTOCOLS:
                say(f"{protocol}, {size:,} members")
                rows.append(uvloop.run(_measured(tier, protocol, size, rounds, idle_s)))
    return rows


async def _measured(tier: Tier, protocol: str, size: int, rounds: int, idle_s: float) -> Row:
    topics = await asyncio.to_thread(create_topics, tier.bootstrap, size)
    crew = await _crew(tier, protocol, topics, size)
    interval_s = INTERVAL_S["consumer" if protocol.startswith("consumer") else "classic"]
    chance = random.Random(SEED)
    row = Row(protocol, size, [], [], [], [], 0.0, 0.0, 0.0)
    requests = cpu_s = 0.0
    try:
        await crew.add(size)
        await asyncio.sleep(3 * interval_s)
        before = crew.requests
        await asyncio.sleep(idle_s)
        idle = (crew.requests - before) / size / idle_s * 60
        for _ in range(rounds):
            for change, seconds in ((crew.join, row.joins_s), (crew.leave, row.leaves_s)):
                await asyncio.sleep(chance.uniform(1, 2) * interval_s)
                before, cpu_before = crew.requests, _cpu_s(tier)
                seconds.append(await change())
                requests += crew.requests - before
                cpu_s += _cpu_s(tier) - cpu_before
                row.known_s.append(crew.known_s)
                row.again_s.append(seconds[-1] - crew.known_s)
    finally:
        await crew.stop()
    changes = max(2 * rounds, 1)
    return row._replace(requests=requests / changes, cpu_ms=cpu_s / changes * 1_000, idle_a_minute=idle)


async def _crew(tier: Tier, protocol: str, topics: list[str], size: int) -> Crew | PushCrew:
    host, _, port = tier.bootstrap.rpartition(":")
    group_id, partitions = topics[0], len(topics) * TOPIC_PARTITIONS
    at = (await coordinators((host, int(port)), [group_id]))[group_id]
    if protocol == "push":
        return PushCrew(group_id, topics, partitions, at, SESSION_TIMEOUT_MS)
    group: ConsumerGroup | Group = Group(terms(group_id, SESSION_TIMEOUT_MS), size)
    if protocol.startswith("consumer"):
        group = ConsumerGroup(group_id, topics, partitions, held=True)
    return Crew(group, at, names_itself=protocol.endswith("held"))


def _cpu_s(tier: Tier) -> float:
    """The processor time of the tier's processes up to now."""
    total = 0.0
    for process in tier.processes():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def show(console: Console, rows: list[Row], found: Many | None, machine: str) -> None:
    table = Table(title=machine)
    for heading in (
        "members",
        "protocol",
        "join s",
        "leave s",
        "known s",
        "again s",
        "requests",
        "CPU ms",
        "idle",
    ):
        table.add_column(heading, justify="left" if heading == "protocol" else "right")
    for row in rows:
        table.add_row(
            f"{row.members:,}",
            row.protocol,
            *map(_in_words, (row.joins_s, row.leaves_s, row.known_s, row.again_s)),
            f"{row.requests:,.0f}",
            f"{row.cpu_ms:,.0f}",
            f"{row.idle_a_minute:.1f}",
        )
    if rows:
        console.print(table)
        console.print(
            "medians; join, leave: until every member has what is its own, and reads; known: until the last "
            "of those who were there hears of it, again: from there on; requests and CPU of the tier: of one "
            "change; idle: requests of one member a minute"
        )
    if found is not None:
        many.show(console, found)


def as_json(rows: list[Row], found: Many | None) -> dict[str, Any]:
    return {
        "protocols": [row._asdict() for row in rows],
        "many": None if found is None else found._asdict(),
    }


def _in_words(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f}" if seconds else ""
