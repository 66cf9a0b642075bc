"""`groupd bench costs` measures what a tier's parts cost: the table of `cluster.capacity.costs`.

It starts tiers of three nodes and three copies on this machine, and takes the CPU, memory and disk of each
process from the kernel's accounts, by what the process does: leader, follower, controller, broker, Ray. What
a request costs depends on how many there are, so every kind is sent at several rates: few to the leaders of
four partitions, many to a single leader.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import uvloop

from bench.capacity import kept
from bench.capacity.roles import (
    BROKER,
    CONTROLLER_FOLLOWER,
    CONTROLLER_LEADER,
    FOLLOWER,
    LEADER,
    REST,
    Roles,
    Used,
    Watch,
    count,
    memory_bytes,
    ours,
    roles,
)
from bench.member.requests import api_versions
from bench.peers import load
from bench.peers.classic import storm
from bench.peers.crowds import TOPIC, Beating, consumer_members
from bench.peers.groupd import GroupdThree
from bench.peers.lines import CLIENT_ID, Line, framed, open_all
from bench.peers.load import Pace, Target
from bench.peers.options import Failed, Options
from bench.peers.peer import SETTINGS
from bench.peers.works.heartbeats import classic_targets, consumer_targets
from bench.peers.works.offsets import commit_targets
from cluster.capacity.costs import Costs, Measured, costs
from cluster.capacity.curve import Point

Say = Callable[[str], None]
SECONDS: Final = 3.0
"""How long a load counts; one of few requests counts for twice as long."""
FEW_PER_S: Final = 500
SETTLED_S: Final = 5.0
IDLE_S: Final = 10.0
CONNECTIONS: Final = 200
BEAT_RATES: Final = (100, 400, 1_600)
CLASSIC_RATES: Final = (200, 1_600)
COMMIT_RATES: Final = (40, 200, 800)
"""Requests per second that four leaders share, so many that there is processor time left."""
ALONE_BEAT_RATES: Final = (1_600, 6_400, None)
ALONE_COMMIT_RATES: Final = (400, 1_000, 2_000, None)
"""Requests per second of a single leader; None: as many as go."""
HELD_MEMBERS: Final = (400, 2_000)
"""How many members four leaders share that heartbeat at the interval that they are told, and are held."""
ALONE_HELD_MEMBERS: Final = (3_000, 6_000)
INTERVAL_S: Final = 5.0
HELD_RAMP_S: Final = INTERVAL_S + 1
FURTHER: Final = 10
"""The offsets of a commit that shows what further ones cost."""
JOINING_GROUPS, JOINING_EACH = 200, 5
IDLE_CONNECTIONS, THEIR_MEMBERS = 4_000, 200
SOFTWARE: Final = ("apache-kafka-java", "4.3.1")
"""A client whose heartbeats are held."""


HELLO: Final = api_versions(4, SOFTWARE)
LENGTH_BYTES: Final = 4
IDLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "leader_idle": LEADER,
        "follower_idle": FOLLOWER,
        "controller_leader_idle": CONTROLLER_LEADER,
        "controller_follower_idle": CONTROLLER_FOLLOWER,
        "broker_idle": BROKER,
        "machine_idle": REST,
    }
)
BASE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "leader_bytes": (LEADER,),
        "follower_bytes": (FOLLOWER,),
        "controller_bytes": (CONTROLLER_LEADER, CONTROLLER_FOLLOWER),
        "broker_bytes": (BROKER,),
        "machine_bytes": (REST,),
    }
)


class Loaded(NamedTuple):
    """What a load came to."""

    used: Used
    requests_s: float

    def us(self, of: Roles, role: str, idle: float) -> float:
        """The CPU of a request in all processes of a role, in microseconds, beyond what they take when they
        are `idle` (cores of one of them)."""
        return (self.used.cores(of, role) - idle * count(of, role)) / self.requests_s * 1e6


class Bench:
    """A tier that is measured."""

    def __init__(self, peer: GroupdThree, say: Say) -> None:
        self.peer = peer
        self.of: Roles = {}
        self.numbers: dict[str, float] = {}
        self.points: dict[str, list[Point]] = {}
        self._busy_s = self._foreign_s = 0.0
        self.say = say

    @property
    def foreign(self) -> float:
        """The share of all processors that other programs had during loads."""
        return self._foreign_s / self._busy_s

    @property
    def followers(self) -> float:
        """How many followers a leader has."""
        return count(self.of, FOLLOWER) / count(self.of, LEADER)

    def find_roles(self) -> None:
        """Find out which process does what. Raises Failed if that has changed: figures would mix leaders and
        followers."""
        found = roles(self.peer.tier)
        if self.of and ours(found) != ours(self.of):
            raise Failed("a leadership or a process has changed while it was measured: measure again")
        self.of = found

    def run(self, what: str, targets: Sequence[Target], pace: Pace) -> Loaded:
        """Drive a load. If it does not reach its rate, its figures are those of the rate that it reached.
        Raises Failed if an answer has an error."""
        self.say(what)
        watches, found = list[Watch](), list[Used]()

        def look() -> None:
            now = time.monotonic()
            if watches:
                found.append(watches[0].used(now))
            else:
                watches.append(Watch(list(self.of), now))

        driven = load.drive_at(pace, self.peer.generators, list(self.of), targets, look)
        (used,) = found
        requests_s = sum(each["requests"] for each in driven.told) / pace.seconds
        self._busy_s += pace.seconds * (os.cpu_count() or 1)
        self._foreign_s += driven.foreign_s(pace.seconds)
        return Loaded(used, requests_s)

    def add_point(self, curve: str, loaded: Loaded, each: float) -> None:
        """Add a measurement: every leader gets an equal share of the requests. One that is no cost is left
        out: something else had the processors while the tier idled, or now."""
        if each <= 0:
            self.say(f"left out: {curve} would have cost {each:,.0f} at {loaded.requests_s:,.0f} a second")
            return
        self.points.setdefault(curve, []).append(Point(loaded.requests_s / count(self.of, LEADER), each))


class _Alone(GroupdThree):
    """A tier with one partition: a machine of few processors can give its leader as much as it takes."""

    settings: ClassVar[Mapping[str, str]] = {**SETTINGS, "offsets.topic.num.partitions": "1"}


def measure(say: Say, command: str, machine: str) -> Costs:
    """Measure on tiers of its own; takes four minutes. Raises Failed, RuntimeError."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    four, one = Bench(GroupdThree(Options()), say), Bench(_Alone(Options()), say)
    _measure(four, (_warm_up, _idle, _base, _connections, _heartbeats, _commits, _joins, _frames))
    _measure(one, (_warm_up, _idle, _alone))
    say("members and offsets in memory")
    numbers = one.numbers | four.numbers | kept.measure()._asdict()
    points = {name: (*found, *one.points.get(name, ())) for name, found in four.points.items()}
    foreign = max(four.foreign, one.foreign)
    return costs(Measured(machine, date, command, round(foreign, 3)), points, numbers)


def _measure(bench: Bench, steps: Sequence[Callable[[Bench], None]]) -> None:
    bench.say("starts three nodes")
    bench.peer.start()
    try:
        bench.peer.wait_until_ready()
        bench.find_roles()
        for step in steps:
            step(bench)
            bench.find_roles()
    finally:
        bench.peer.stop()


def _warm_up(bench: Bench) -> None:
    """Load what processes load with their first requests."""
    for targets in (
        consumer_targets(bench.peer, 50),
        classic_targets(bench.peer, 50),
        commit_targets(bench.peer, 50, 1),
    ):
        bench.run("warms up", targets, Pace(0.5))
    time.sleep(SETTLED_S)


def _idle(bench: Bench) -> None:
    bench.say(f"idles for {IDLE_S:g} s")
    watch = Watch(list(bench.of), time.monotonic())
    time.sleep(IDLE_S)
    used = watch.used(time.monotonic())
    for name, role in IDLE.items():
        bench.numbers[name] = used.cores(bench.of, role) / (1 if role == REST else count(bench.of, role))


def _base(bench: Bench) -> None:
    for name, (role, *others) in BASE.items():
        found = sum(memory_bytes(bench.of, each) for each in (role, *others))
        of_role = sum(count(bench.of, each) for each in (role, *others))
        bench.numbers[name] = found / (1 if role == REST else of_role)


def _heartbeats(bench: Bench) -> None:
    _beat(bench, "heartbeat", consumer_targets(bench.peer, CONNECTIONS), BEAT_RATES)
    _beat(bench, "classic_heartbeat", classic_targets(bench.peer, CONNECTIONS), CLASSIC_RATES)
    _hold(bench, HELD_MEMBERS)


def _hold(bench: Bench, members_of_each: Iterable[int]) -> None:
    for members in members_of_each:
        targets = [
            Target(*each.at, "consumer_group_heartbeat", 1, [each.first_frame], [framed(HELLO)])
            for each in consumer_members(bench.peer, members)
        ]
        pace = Pace(2 * SECONDS, members / INTERVAL_S, HELD_RAMP_S)
        loaded = bench.run(f"held heartbeats of {members:,} members", targets, pace)
        bench.add_point("held_heartbeat", loaded, loaded.us(bench.of, LEADER, bench.numbers["leader_idle"]))


def _beat(bench: Bench, curve: str, targets: Sequence[Target], rates: Iterable[float | None]) -> None:
    for rate in rates:
        loaded = bench.run(f"{curve}, {_told(rate)}", targets, _pace(rate))
        bench.add_point(curve, loaded, loaded.us(bench.of, LEADER, bench.numbers["leader_idle"]))


def _pace(rate: float | None) -> Pace:
    return Pace(SECONDS * (2 if rate is not None and rate < FEW_PER_S else 1), rate)


def _alone(bench: Bench) -> None:
    """Measure rates that four leaders at once would have no processors for."""
    _beat(bench, "heartbeat", consumer_targets(bench.peer, CONNECTIONS), ALONE_BEAT_RATES)
    _beat(bench, "classic_heartbeat", classic_targets(bench.peer, CONNECTIONS), ALONE_BEAT_RATES)
    _hold(bench, ALONE_HELD_MEMBERS)
    _commit(bench, 1, ALONE_COMMIT_RATES)
    _further(bench)


def _commits(bench: Bench) -> None:
    _commit(bench, 1, COMMIT_RATES)


def _commit(bench: Bench, offsets: int, rates: Iterable[float | None]) -> None:
    targets = commit_targets(bench.peer, CONNECTIONS, offsets)
    for rate in rates:
        loaded = bench.run(f"commits of {offsets}, {_told(rate)}", targets, _pace(rate))
        for name, us in _commit_us(bench, loaded).items():
            bench.add_point(name, loaded, us)
        # A follower that is not needed for a majority may write later, and less often.
        disk = loaded.used.per_s(loaded.used.disk, bench.of, LEADER, FOLLOWER)
        bench.add_point("commit_disk", loaded, disk / loaded.requests_s / (1 + bench.followers))


def _commit_us(bench: Bench, loaded: Loaded) -> dict[str, float]:
    """The CPU of a commit in a leader, and in one of its followers."""
    leader_us, follower_us = (
        loaded.us(bench.of, role, bench.numbers[name])
        for role, name in ((LEADER, "leader_idle"), (FOLLOWER, "follower_idle"))
    )
    return {"commit_leader": leader_us, "commit_follower": follower_us / bench.followers}


def _further(bench: Bench) -> None:
    """Tell apart what a commit costs, and each further offset in it: CPU of a busy leader, and bytes of
    commits that come one after the other, so that each is an entry of its own."""
    busy, single = (
        [
            bench.run(
                f"commits of {offsets}, {what}", commit_targets(bench.peer, count, offsets), Pace(SECONDS)
            )
            for offsets in (1, FURTHER)
        ]
        for count, what in ((CONNECTIONS, "as many as go"), (1, "one after the other"))
    )
    one, many = (_commit_us(bench, loaded) for loaded in busy)
    journal = [
        loaded.used.per_s(loaded.used.written, bench.of, FOLLOWER) / loaded.requests_s / bench.followers
        for loaded in single
    ]
    bench.numbers |= {
        "offset_leader_us": _apart(one["commit_leader"], many["commit_leader"]),
        "offset_follower_us": _apart(one["commit_follower"], many["commit_follower"]),
        "commit_journal_bytes": journal[0],
        "offset_journal_bytes": _apart(*journal),
    }


def _apart(one: float, many: float) -> float:
    return max(0.0, many - one) / (FURTHER - 1)


def _joins(bench: Bench) -> None:
    """Let classic groups form; what their members' connections cost is in it."""
    bench.say(f"{JOINING_GROUPS} groups of {JOINING_EACH} form")
    group_ids = [f"joining-{number}" for number in range(JOINING_GROUPS)]
    watch = Watch(list(bench.of), time.monotonic())
    uvloop.run(storm(bench.peer, group_ids, JOINING_EACH, bench.peer.session_timeout_ms, stay=True))
    used, joins = watch.used(time.monotonic()), JOINING_GROUPS * JOINING_EACH
    for name, role, of_each in (
        ("join_leader_us", LEADER, 1.0),
        ("join_follower_us", FOLLOWER, bench.followers),
    ):
        idle = bench.numbers[f"{role}_idle"] * count(bench.of, role)
        bench.numbers[name] = (
            max(0.0, used.cores(bench.of, role) - idle) * used.seconds / joins / of_each * 1e6
        )


def _connections(bench: Bench) -> None:
    bench.say(f"{IDLE_CONNECTIONS:,} connections")
    members = consumer_members(bench.peer, THEIR_MEMBERS) * (IDLE_CONNECTIONS // THEIR_MEMBERS)
    before, during = uvloop.run(_open(bench, members))
    bench.numbers["connection_bytes"] = max(0.0, during - before) / IDLE_CONNECTIONS


async def _open(bench: Bench, members: Sequence[Beating]) -> tuple[float, float]:
    """Return the memory of the leaders before connections are open, and while they are."""
    before = memory_bytes(bench.of, LEADER)
    lines = await open_all(each.at for each in members)
    try:
        for line, each in zip(lines, members, strict=True):
            await line.ask(each.frame)
        await asyncio.sleep(1.0)
        return before, memory_bytes(bench.of, LEADER)
    finally:
        for line in lines:
            line.close()


def _frames(bench: Bench) -> None:
    """Count the bytes of requests and answers, by sending one of each."""
    beat = consumer_targets(bench.peer, 1)[0]
    one, many = (commit_targets(bench.peer, 1, offsets)[0] for offsets in (1, FURTHER))
    beat_out, one_out, many_out = uvloop.run(_answers((beat, one, many)))
    names = (CLIENT_ID, consumer_members(bench.peer, 1)[0].group_id, TOPIC)
    bench.numbers |= {
        "name_bytes": sum(map(len, names)) / len(names),
        "heartbeat_in_bytes": len(beat.frames[0]),
        "heartbeat_out_bytes": beat_out,
        "commit_in_bytes": len(one.frames[0]),
        "commit_out_bytes": one_out,
        "offset_in_bytes": (len(many.frames[0]) - len(one.frames[0])) / (FURTHER - 1),
        "offset_out_bytes": (many_out - one_out) / (FURTHER - 1),
    }


async def _answers(targets: Sequence[Target]) -> list[int]:
    """Return how many bytes the answer of each target's first request has, with its length."""
    found = []
    for target in targets:
        line = await Line.open((target.host, target.port))
        try:
            found.append(LENGTH_BYTES + len(await line.ask(target.frames[0])))
        finally:
            line.close()
    return found


def _told(rate: float | None) -> str:
    return "as many as go" if rate is None else f"{rate:,} a second"
