"""`groupd bench hold --clients` measures how soon real clients know of a change, with held heartbeats,
without, and with Kafka, and whether they stay connected when nothing happens for long.

Each client and protocol has a group of its own (`bench.hold.group`). All groups of a server live at the same
time, the servers one after the other.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
from rich.console import Console

from actors.metrics.families import PREFIX
from bench.clients.member import Member
from bench.clients.programs import CannotRunError, command_of
from bench.ground.throwaway import Tier
from bench.hold.group import PARTITIONS, SCENES, Group, moves_of
from bench.peers.kafka import KafkaOne
from bench.peers.options import Options
from cluster.cli.tables import Table

Say = Callable[[str], None]
PROTOCOLS: Final = ("classic", "consumer")
HELD: Final = "held"
SERVERS: Final[dict[str, tuple[str, ...]]] = {
    HELD: (),
    "not held": ("--set", "group.heartbeat.hold.enable=false"),
    "Kafka": (),
}
"""The further flags of each server's tier, by the name of its rows."""
TIER_FLAGS: Final = (
    *("--nodes", "1", "--replicas", "1"),
    *("--set", "group.rebalance.batch.max.ms=0", "--set", "group.initial.rebalance.delay.ms=0"),
)
HOLD_ENDS: Final = f"{PREFIX}heartbeat_hold_ends"
LOOK_S: Final = 1.0
REST_S: Final = 30.0
"""How long after the last change idleness begins to count: connections of joining members are closed by
then."""


class Plan(NamedTuple):
    """What is measured."""

    clients: tuple[str, ...]
    """The names of clients, from `bench.clients.programs.CLIENTS`."""
    rounds: int
    """How many rounds every scene has; 0: none."""
    idle_minutes: float
    """How many minutes members idle on the tier that holds heartbeats; 0: none."""
    kafka_home: Path | None
    servers: tuple[str, ...]
    """The names of servers, from SERVERS."""


class Row(NamedTuple):
    """The figures of one scene with one client in one protocol on one server."""

    client: str
    protocol: str
    server: str
    scene: str
    seconds: list[float]


class Idle(NamedTuple):
    """The figures of one client's idle members in one protocol."""

    client: str
    protocol: str
    members: int
    minutes: float
    new_connections: int
    """How many new connections they made to any server."""
    rebalances: int
    """How often partitions were assigned or revoked."""
    complaints: list[str]
    """The errors that the application got, and the warnings in the client's log."""


class Measured(NamedTuple):
    rows: list[Row]
    idle: list[Idle]
    holds: dict[str, float]
    """How many heartbeats were held over the idle time, by what ended the hold."""


def measure(plan: Plan, say: Say) -> Measured:
    """Measure on one server after the other, which are started and stopped. Raises CannotRunError, Broken,
    RuntimeError."""
    measured = Measured([], [], {})
    with tempfile.TemporaryDirectory(prefix="groupd-bench-classes-") as classes:
        commands = {client: command_of(client, plan.kafka_home, Path(classes)) for client in plan.clients}
        for name in plan.servers:
            say(f"{name}: {', '.join(plan.clients)}, {plan.rounds} rounds of every scene")
            with _server(name, plan.kafka_home) as (bootstrap, tier):
                groups = [
                    Group(client, protocol, command, bootstrap)
                    for client, command in commands.items()
                    for protocol in PROTOCOLS
                ]
                try:
                    _live(groups, plan.rounds)
                    measured.rows.extend(_rows(groups, name))
                    if tier is not None and name == HELD and plan.idle_minutes:
                        say(f"{name}: {plan.idle_minutes:g} minutes with nothing to do")
                        _stay_idle(groups, tier, plan.idle_minutes, measured)
                finally:
                    for group in groups:
                        group.kill()
    return measured


@contextmanager
def _server(name: str, kafka_home: Path | None) -> Iterator[tuple[str, Tier | None]]:
    """Start a server. Yields its bootstrap address, and the tier if it is ours."""
    if name != "Kafka":
        with Tier(*TIER_FLAGS, *SERVERS[name], nodes=1) as tier:
            yield tier.bootstrap, tier
        return
    kafka = KafkaOne(Options(kafka_home=kafka_home))
    missing = kafka.missing()
    if missing:
        raise CannotRunError(f"Kafka: {missing}")
    try:
        kafka.start()
        kafka.wait_until_ready()
        ((host, port),) = kafka.bootstrap
        yield f"{host}:{port}", None
    finally:
        kafka.stop()


def _live(groups: list[Group], rounds: int) -> None:
    def one(group: Group) -> None:
        group.settle()
        group.live(rounds)

    with ThreadPoolExecutor(len(groups)) as pool:
        for future in [pool.submit(one, group) for group in groups]:
            future.result()


def _rows(groups: list[Group], server: str) -> list[Row]:
    return [
        Row(group.client, group.protocol, server, scene, seconds)
        for group in groups
        for scene, seconds in group.times.items()
        if seconds
    ]


# Idle members.


class _Watched:
    """What has happened to one group so far, and the connections of its members."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.new_connections = 0
        self._open = self._connections()
        self._moves = self._count_moves()
        self._words = {member: len(_words(member)) for member in group.members}

    def look(self) -> None:
        now = self._connections()
        self.new_connections += len(now - self._open)
        self._open = now

    @property
    def rebalances(self) -> int:
        return self._count_moves() - self._moves

    @property
    def complaints(self) -> list[str]:
        return [word for member, before in self._words.items() for word in _words(member)[before:]]

    def _connections(self) -> set[tuple[int, Any, Any]]:
        """The connections: process, own address and server's address of each."""
        found = set()
        for member in self.group.members:
            member.check()
            for each in psutil.Process(member.pid).net_connections("tcp"):
                if each.status == psutil.CONN_ESTABLISHED:
                    found.add((member.pid, each.laddr, each.raddr))
        return found

    def _count_moves(self) -> int:
        return sum(len(moves_of(member)) for member in self.group.members)


def _stay_idle(groups: list[Group], tier: Tier, minutes: float, measured: Measured) -> None:
    time.sleep(REST_S)
    watched = [_Watched(group) for group in groups]
    holds = _holds(tier)
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        time.sleep(LOOK_S)
        for each in watched:
            each.look()
    measured.holds.update({cause: count - holds[cause] for cause, count in _holds(tier).items()})
    for each in watched:
        group = each.group
        measured.idle.append(
            Idle(
                group.client,
                group.protocol,
                len(group.members),
                minutes,
                each.new_connections,
                each.rebalances,
                each.complaints,
            )
        )


def _holds(tier: Tier) -> dict[str, float]:
    """How many holds have ended so far, by cause."""
    rows = json.loads(tier.run("metrics", "--json"))
    return {row["labels"]["cause"]: row["value"] for row in rows if row["name"] == HOLD_ENDS}


def _words(member: Member) -> list[str]:
    return [*(event["error"] for event in member.told("complained")), *member.log]


# The figures as tables and JSON.


def as_json(measured: Measured) -> dict[str, Any]:
    return {
        "rows": [row._asdict() for row in measured.rows],
        "idle": [idle._asdict() for idle in measured.idle],
        "holds": measured.holds,
    }


def show(console: Console, measured: Measured, machine: str) -> None:
    table = Table(title=machine)
    for heading in ("", *SCENES):
        table.add_column(
            heading, justify="right" if heading else "left", no_wrap=not heading, overflow="fold"
        )
    by_group: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in measured.rows:
        by_group.setdefault((row.client, row.protocol, row.server), {})[row.scene] = row.seconds
    for (client, protocol, server), scenes in sorted(by_group.items()):
        figures = (_in_words(scenes.get(scene, [])) for scene in SCENES)
        table.add_row(f"{client}\n{protocol} {server}", *figures)
    if by_group:
        console.print(table)
        console.print(
            f"seconds, median and below it smallest-largest; {PARTITIONS} partitions, 2 members and a third"
        )
    for idle in measured.idle:
        console.print(
            f"{idle.client}, {idle.protocol}: {idle.members} members idle for {idle.minutes:g} minutes:"
            f" {idle.new_connections} new connections, {idle.rebalances} rebalances,"
            f" {len(idle.complaints)} complaints"
        )
    if measured.holds:
        ends = ", ".join(f"{count:.0f} by {cause}" for cause, count in measured.holds.items())
        console.print(f"holds that ended meanwhile: {ends}")


def _in_words(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    return f"{statistics.median(seconds):.2f}\n{min(seconds):.1f}-{max(seconds):.1f}"
