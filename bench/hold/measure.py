"""`groupd bench hold`: how soon a group knows of a join and of a leave, and how often its idle members speak,
with their heartbeats held and without; beside a Kafka if there is one.

A change comes at a random moment, at least one interval after the last, to a settled group. Its time ends
when every member has what is its own now: KIP-848: one epoch, every partition owned once, shares even;
classic: all have synced in one generation. The wait for more joins and leaves in a storm of them is off.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import uvloop
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from bench.ground.throwaway import Tier
from bench.member.reactions import Reaction
from bench.member.requests import api_versions
from bench.peers.classic import HEARTBEAT_INTERVAL_S, Group, terms
from bench.peers.consumer import ConsumerGroup
from bench.peers.lines import Address, Line, coordinators, framed, open_all
from bench.peers.living import Living
from cluster.cli.tables import Table

Say = Callable[[str], None]
Protocol = Literal["consumer", "classic"]
PROTOCOLS: Final[tuple[Protocol, ...]] = ("consumer", "classic")
PARTITIONS_A_MEMBER: Final = 10
TOPIC_PARTITIONS: Final = 100
INTERVAL_S: Final = {"consumer": 5.0, "classic": HEARTBEAT_INTERVAL_S}
SESSION_TIMEOUT_MS: Final = 45_000
SOFTWARE: Final = ("apache-kafka-java", "4.3.1")
"""A client software on the tier's list of those whose heartbeats are held."""
INTRODUCTION_VERSION: Final = 3
"""The version of ApiVersions by which clients say what software they are."""
SETTLE_TIMEOUT_S: Final = 120.0
TOPICS_TIMEOUT_S: Final = 60.0
SEED: Final = 848
TIER_FLAGS: Final = (
    *("--nodes", "1", "--replicas", "1"),
    *("--set", "group.rebalance.batch.max.ms=0", "--set", "group.initial.rebalance.delay.ms=500"),
)


class Plan(NamedTuple):
    """What is measured, and how often."""

    sizes: tuple[int, ...]
    rounds: int
    """How many joins, and how many leaves, each group has."""
    idle_s: float
    kafka: str
    """The host:port of a Kafka to measure, too; "": none."""


class Row(NamedTuple):
    """The figures of one group of one protocol on one server."""

    protocol: Protocol
    members: int
    server: str
    joins_s: list[float]
    leaves_s: list[float]
    beats_a_minute: float
    """The heartbeats of one idle member per minute."""
    generator_share: float
    """The largest share of one processor that the clients took during a change."""


class Crew:
    """One group and its members, each on a connection of its own."""

    def __init__(self, group: ConsumerGroup | Group, at: Address, *, names_itself: bool) -> None:
        self._group = group
        self._at = at
        self._names_itself = names_itself
        self._members: list[Living[Any]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._made = 0
        self.requests_before = 0
        """How many requests members sent that have left."""
        self.group_id = group.group_id
        self._unaware: dict[int, int] = {}
        """The members, by identity, that have heard nothing of the last change; their epochs before it."""
        self._changed_at = self._known_at = 0.0

    @property
    def requests(self) -> int:
        return self.requests_before + sum(each.line.requests for each in self._members)

    @property
    def known_s(self) -> float:
        """Return how long after the last change the last of those who were there heard of it."""
        return max(self._known_at - self._changed_at, 0.0)

    def heard(self, member: Any, reaction: Reaction) -> None:
        """Note who hears of a change: by another epoch or assignment, or that it has to join again."""
        before = self._unaware.get(id(member), member.epoch)
        is_told = member.needs_join if isinstance(self._group, Group) else member.target is not None
        if member.epoch != before or (is_told and id(member) in self._unaware):
            del self._unaware[id(member)]
            self._known_at = time.monotonic()
        self._group.heard(member, reaction)

    def left(self, member: Any) -> None:
        self._group.left(member)

    async def add(self, count: int) -> float:
        """Let so many members join at once. Returns the seconds until the group has settled."""
        lines = await open_all([self._at] * count)
        if self._names_itself:
            introduction = framed(api_versions(INTRODUCTION_VERSION, SOFTWARE))
            await asyncio.gather(*(line.ask(introduction) for line in lines))
        self._members += [self._member(line) for line in lines]
        self._expect()
        began = time.monotonic()
        self._tasks += [asyncio.create_task(member.run()) for member in self._members[-count:]]
        return await self._settled(began)

    async def join(self) -> float:
        return await self.add(1)

    async def leave(self) -> float:
        """Let the oldest member leave. Returns the seconds until the others have settled."""
        leaver, task = self._members.pop(0), self._tasks.pop(0)
        task.cancel()
        self._expect()
        began = time.monotonic()
        left = asyncio.ensure_future(leaver.leave())
        seconds = await self._settled(began)
        await left
        self.requests_before += leaver.line.requests
        leaver.line.close()
        return seconds

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._members:
            each.line.close()

    def _member(self, line: Line) -> Living[Any]:
        self._made += 1
        if isinstance(self._group, ConsumerGroup):
            return Living(line, self, self._group.new_member(self._made))
        return Living(line, self, self._group.new_member())

    def _expect(self) -> None:
        self._unaware = {
            id(each.member): each.member.epoch for each in self._members if each.member.epoch > 0
        }
        self._changed_at = time.monotonic()
        if isinstance(self._group, ConsumerGroup):
            self._group.expect()
        else:
            self._group.expect(len(self._members))

    async def _settled(self, began: float) -> float:
        waiting = asyncio.ensure_future(self._group.settled.wait())
        done, _ = await asyncio.wait(
            {waiting, *self._tasks}, timeout=SETTLE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        ended = time.monotonic()
        if waiting not in done:
            waiting.cancel()
            for task in done:
                task.result()
            raise TimeoutError(f"{self._group.group_id} has not settled after {SETTLE_TIMEOUT_S:.0f} s")
        return ended - began


def measure(plan: Plan, say: Say) -> list[Row]:
    """Measure on a throw-away tier, which is started and stopped. Raises RuntimeError, TimeoutError."""
    with Tier(*TIER_FLAGS, nodes=1) as tier:
        rows = _on(tier.bootstrap, {"held": True, "not held": False}, plan, say)
    if plan.kafka:
        rows += _on(plan.kafka, {"Kafka": True}, plan, say)
    return rows


def _on(bootstrap: str, servers: dict[str, bool], plan: Plan, say: Say) -> list[Row]:
    """Measure on a bootstrap address. `servers` says for each name of rows whether clients say what software
    they are."""
    rows = []
    for protocol in PROTOCOLS:
        for size in plan.sizes:
            for name, names_itself in servers.items():
                say(f"{protocol}, {size:,} members, {name}")
                row = Row(protocol, size, name, [], [], 0.0, 0.0)
                topics = create_topics(bootstrap, size)
                rows.append(uvloop.run(_filled(row, bootstrap, topics, plan, names_itself=names_itself)))
    return rows


async def _filled(row: Row, bootstrap: str, topics: list[str], plan: Plan, *, names_itself: bool) -> Row:
    host, port = bootstrap.rsplit(":", 1)
    protocol, size = row.protocol, row.members
    group_id = topics[0]
    at = (await coordinators((host, int(port)), [group_id]))[group_id]
    group: ConsumerGroup | Group = Group(terms(group_id, SESSION_TIMEOUT_MS), size)
    if protocol == "consumer":
        group = ConsumerGroup(group_id, topics, len(topics) * TOPIC_PARTITIONS, held=True)
    crew = Crew(group, at, names_itself=names_itself)
    chance, interval_s = random.Random(SEED), INTERVAL_S[protocol]
    shares: list[float] = []
    try:
        await crew.add(size)
        await asyncio.sleep(3 * interval_s)
        before = crew.requests
        await asyncio.sleep(plan.idle_s)
        beats = (crew.requests - before) / size / plan.idle_s * 60
        for _ in range(plan.rounds):
            for change, seconds in ((crew.join, row.joins_s), (crew.leave, row.leaves_s)):
                await asyncio.sleep(chance.uniform(1, 2) * interval_s)
                own = time.process_time()
                seconds.append(await change())
                shares.append((time.process_time() - own) / seconds[-1])
    finally:
        await crew.stop()
    return row._replace(beats_a_minute=beats, generator_share=max(shares))


def create_topics(bootstrap: str, members: int) -> list[str]:
    """Create topics with about PARTITIONS_A_MEMBER partitions for each member."""
    count = max(members * PARTITIONS_A_MEMBER // TOPIC_PARTITIONS, 1)
    run = time.time_ns()
    names = [f"hold-{run}-{number}" for number in range(count)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(each, TOPIC_PARTITIONS, 1) for each in names])
    for future in made.values():
        future.result(TOPICS_TIMEOUT_S)
    return names


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {**row._asdict(), "join_s": _spread(row.joins_s), "leave_s": _spread(row.leaves_s)} for row in rows
    ]


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"min": min(seconds), "median": statistics.median(seconds), "max": max(seconds)}


def show(console: Console, rows: list[Row], machine: str) -> None:
    table = Table(title=machine)
    for heading in ("protocol", "members", "", "join s", "leave s", "beats/min"):
        table.add_column(heading, justify="left" if heading in ("protocol", "") else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.protocol,
            f"{row.members:,}",
            row.server,
            _in_words(row.joins_s),
            _in_words(row.leaves_s),
            f"{row.beats_a_minute:.1f}",
        )
    console.print(table)
    console.print(
        "median (smallest to largest); beats: of one idle member; clients: their share of a processor"
    )


def _in_words(seconds: list[float]) -> str:
    spread = _spread(seconds)
    return f"{spread['median']:.2f} ({spread['min']:.2f}-{spread['max']:.2f})"
