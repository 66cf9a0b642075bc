"""`groupd bench million`: very many idle members over few connections, each served at its interval.

A tier of one machine, started for it: one node, one copy. Small KIP-848 groups come one after the other until
all members are there, and each member beats from then on at the interval that it is told, which the tier
stretches so as to keep to its budget of heartbeats a second (`group.heartbeat.budget.per.second`, of each
offsets partition). Members share connections, which real clients do not: what those cost is not in here.
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import uvloop
from rich.console import Console

from actors.protocol.java_hash import partition_for
from actors.protocol.wire import compact_count, compact_string
from bench.ground.throwaway import Tier, pss_mib
from bench.peers.consumer import CONSUMER_GROUP_HEARTBEAT, REBALANCE_TIMEOUT_MS, parse
from bench.peers.lines import NOT_YET, RETRY_S, Address, Line, coordinators, open_all, request
from cluster.cli.tables import Table
from cluster.wire import Wire

TOPIC: Final = "idle"
GOAL_BYTES: Final = 1_024
IN_TIME_S: Final = 1.0
"""A heartbeat is in time if it is answered so soon after it was due."""
JOINING_MAX: Final = 20
"""Of members whose joins a connection has outstanding: those that are due meanwhile wait for them."""
BEATING_MAX: Final = 1_000
SLOT_S: Final = 0.02
LINES_A_PARTITION: Final = 64
"""A connection has one request served at a time, and a join is served once it is on disk."""
COORDINATORS_ASKED_MAX: Final = 1_000
HIGHEST_INTERVAL_MS: Final = 120_000
SESSION_TIMEOUT_MS: Final = 3 * HIGHEST_INTERVAL_MS
_JOIN_EPOCH: Final = 0
_SAY_NOTHING: Final = struct.pack(">i", -1) + b"\0\0\0\0"
"""No rebalance timeout; names, regex, assignor as they were; and what the member owns too."""


class Plan(NamedTuple):
    members: int
    group_size: int
    partitions: int
    """Offsets partitions, and so processes that share the members."""
    seconds: float
    """How long all members are there and beat."""
    budget: int
    """Heartbeats a second, of each offsets partition."""


class Figures(NamedTuple):
    plan: Plan
    join_s: float
    lost: Counter[int]
    """Errors that members were told: who is told one is out of its group."""
    beats: int
    in_time: int
    late_ms: tuple[float, float]
    """How long after it was due a heartbeat was answered: median and p99.9, of a sample."""
    interval_s: float
    """As members were told last: the median."""
    cpu_share: float
    """Of one processor, of all server processes, while all were there."""
    member_bytes: float
    """What the server processes grew by for each member (PSS)."""
    owned: int
    """Partitions that members have."""


class Member:
    """One of a group. It has what it was given, and says so once."""

    __slots__ = ("due_s", "epoch", "group_id", "interval_s", "number", "owed", "owned")

    def __init__(self, group_id: str, number: int) -> None:
        self.group_id = group_id
        self.number = number
        self.epoch = _JOIN_EPOCH
        self.owed: bytes | None = None
        """Partitions to be acknowledged, as on the wire."""
        self.owned = 0
        self.due_s = 0.0
        self.interval_s = 0.0

    def frame(self) -> bytes:
        head = compact_string(self.group_id) + compact_string(f"{self.group_id}-{self.number:012d}")
        head += struct.pack(">i", self.epoch) + b"\0\0"
        if self.epoch == _JOIN_EPOCH:
            topics = compact_count(1) + compact_string(TOPIC)
            rest = (
                struct.pack(">i", REBALANCE_TIMEOUT_MS) + topics + b"\0" + compact_string("uniform") + b"\1"
            )
        elif self.owed is not None:
            rest, self.owed = _SAY_NOTHING[:-1] + self.owed, None
        else:
            rest = _SAY_NOTHING
        return request(CONSUMER_GROUP_HEARTBEAT, 1, head + rest + b"\0", flexible=True)


class Crowd:
    """The members of one connection, by when they are due."""

    def __init__(self, line: Line, group_ids: Sequence[str], group_size: int) -> None:
        self._line = line
        self._waiting = self._members(group_ids, group_size)
        self._slots: dict[int, list[Member]] = {}
        self.members: list[Member] = []
        self.lost: Counter[int] = Counter()
        self.joined = asyncio.Event()
        self.joined_members = 0
        self.lates_s: list[float] = []
        """Of heartbeats since `measure`."""
        self._next_slot = int(time.monotonic() / SLOT_S)

    @staticmethod
    def _members(group_ids: Sequence[str], group_size: int) -> Iterator[Member]:
        return (Member(group_id, number) for group_id in group_ids for number in range(group_size))

    async def run(self) -> None:
        """Until it is cancelled. Raises Closed."""
        while True:
            due = self._due()
            newcomers = list(islice(self._waiting, JOINING_MAX))
            self.members += newcomers
            for first in range(0, len(due), BEATING_MAX):
                await self._serve(due[first : first + BEATING_MAX])
            await self._serve(newcomers)
            if not (due or newcomers):
                self.joined.set()
                await asyncio.sleep(SLOT_S / 2)

    def _due(self) -> list[Member]:
        found: list[Member] = []
        slot = int(time.monotonic() / SLOT_S)
        while self._next_slot < slot:
            found += self._slots.pop(self._next_slot, ())
            self._next_slot += 1
        return found

    async def _serve(self, members: Sequence[Member]) -> None:
        """Ask for each of them; the answers come in order."""
        asked = [(member, self._line.ask(member.frame())) for member in members]
        for member, answer in asked:
            self._take(member, await answer)

    def _take(self, member: Member, packed: bytes) -> None:
        answer, now_s = parse(packed), time.monotonic()
        if answer.error in NOT_YET:
            self._file(member, now_s + RETRY_S)
            return
        if answer.error:
            self.lost[answer.error] += 1
            return
        if member.epoch == _JOIN_EPOCH:
            self.joined_members += 1
        else:
            self.lates_s.append(now_s - member.due_s)
        member.epoch, member.interval_s = answer.member_epoch, answer.interval_s
        if answer.assigned is not None:
            member.owed, member.owned = answer.assigned, answer.partitions
        self._file(member, now_s if member.owed is not None else now_s + answer.interval_s)

    def _file(self, member: Member, due_s: float) -> None:
        member.due_s = due_s
        self._slots.setdefault(max(int(due_s / SLOT_S), self._next_slot), []).append(member)


def tier_flags(plan: Plan) -> tuple[str, ...]:
    settings = {
        # A join that waits for others holds up whoever is behind it on the connection.
        "group.rebalance.batch.max.ms": 0,
        "group.heartbeat.budget.per.second": plan.budget,
        "group.consumer.max.heartbeat.interval.ms": HIGHEST_INTERVAL_MS,
        "group.consumer.max.session.timeout.ms": SESSION_TIMEOUT_MS,
        "group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS,
    }
    flags = ("--nodes", "1", "--replicas", "1", "--partitions", str(plan.partitions))
    return (*flags, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")))


async def _measure(tier: Tier, plan: Plan, say: Callable[[str], None]) -> Figures:
    bootstrap = ("127.0.0.1", tier.port)
    await _create_topic(bootstrap, plan.group_size)
    crowds = await _crowds(bootstrap, plan)
    processes = tier.processes()
    before_mib = pss_mib(processes)
    began = time.monotonic()
    tasks = [asyncio.create_task(crowd.run()) for crowd in crowds]
    try:
        await _until_joined(crowds, tasks, plan, say)
        join_s = time.monotonic() - began
        say(f"all have joined after {join_s:.0f} s; they beat for {plan.seconds:.0f} s")
        for crowd in crowds:
            crowd.lates_s.clear()
        cpu_s, began = _cpu_s(tier), time.monotonic()
        done, _ = await asyncio.wait(tasks, timeout=plan.seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        share = (_cpu_s(tier) - cpu_s) / (time.monotonic() - began)
        grown = (pss_mib(tier.processes()) - before_mib) * 2**20
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return _figures(plan, crowds, join_s, share, grown)


def _figures(plan: Plan, crowds: Sequence[Crowd], join_s: float, share: float, grown: float) -> Figures:
    lates_s = sorted(late for crowd in crowds for late in crowd.lates_s)
    members = [member for crowd in crowds for member in crowd.members]
    lost: Counter[int] = sum((crowd.lost for crowd in crowds), Counter())
    median, highest = (
        (lates_s[len(lates_s) // 2], lates_s[int(len(lates_s) * 0.999)]) if lates_s else (0.0, 0.0)
    )
    return Figures(
        plan,
        join_s,
        lost,
        len(lates_s),
        sum(late <= IN_TIME_S for late in lates_s),
        (median * 1e3, highest * 1e3),
        statistics.median(member.interval_s for member in members),
        share,
        grown / len(members),
        sum(member.owned for member in members),
    )


async def _create_topic(bootstrap: Address, partitions: int) -> None:
    """As many partitions as a group has members."""
    wire = await Wire.connect(*bootstrap, "bench")
    try:
        topic = {"name": TOPIC, "num_partitions": partitions, "replication_factor": 1}
        topic |= {"assignments": [], "configs": []}
        await wire.call("create_topics", 5, topics=[topic], timeout=30_000, validate_only=False)
    finally:
        await wire.close()


async def _crowds(bootstrap: Address, plan: Plan) -> list[Crowd]:
    group_ids = [f"group-{number}" for number in range(-(-plan.members // plan.group_size))]
    found: dict[str, Address] = {}
    for first in range(0, len(group_ids), COORDINATORS_ASKED_MAX):
        found |= await coordinators(bootstrap, group_ids[first : first + COORDINATORS_ASKED_MAX])
    # A connection for groups of one offsets partition each, as those of real clients are for one group.
    places: dict[tuple[Address, int], list[str]] = {}
    for group_id, address in found.items():
        places.setdefault((address, partition_for(group_id, plan.partitions)), []).append(group_id)
    shares = [
        (address, mine[number::LINES_A_PARTITION])
        for (address, _), mine in places.items()
        for number in range(min(LINES_A_PARTITION, len(mine)))
    ]
    lines = await open_all([address for address, _ in shares])
    return [Crowd(line, mine, plan.group_size) for line, (_, mine) in zip(lines, shares, strict=True)]


async def _until_joined(
    crowds: Sequence[Crowd], tasks: Sequence[asyncio.Task[None]], plan: Plan, say: Callable[[str], None]
) -> None:
    while not all(crowd.joined.is_set() for crowd in crowds):
        done, _ = await asyncio.wait(tasks, timeout=5.0, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        say(f"{sum(crowd.joined_members for crowd in crowds):,} of {plan.members:,} members have joined")


def _cpu_s(tier: Tier) -> float:
    times = [process.cpu_times() for process in tier.processes()]
    return float(sum(each.user + each.system for each in times))


def measure(plan: Plan, say: Callable[[str], None]) -> Figures:
    """Raises Closed if the tier hangs up."""
    with Tier(*tier_flags(plan), nodes=1) as tier:
        return uvloop.run(_measure(tier, plan, say))


def show(console: Console, figures: Figures, machine: str) -> None:
    plan = figures.plan
    table = Table(title=machine, show_header=False)
    share = figures.in_time / figures.beats if figures.beats else 0.0
    lost = ", ".join(f"{count:,} with error {error}" for error, count in figures.lost.items())
    rows = {
        "members": f"{plan.members:,} in groups of {plan.group_size}, {plan.partitions} offsets partitions",
        "joined in": f"{figures.join_s:,.0f} s",
        "lost": lost or "none",
        "partitions they have": f"{figures.owned:,}",
        "interval": f"{figures.interval_s:g} s (median of what they are told)",
        "heartbeats": f"{figures.beats:,} in {plan.seconds:g} s, {share:.3%} answered within {IN_TIME_S:g} s",
        "answered after": "{:.0f} ms, p99.9 {:.0f} ms".format(*figures.late_ms),
        "CPU": f"{figures.cpu_share:.0%} of a processor, of all server processes",
        "memory": f"{figures.member_bytes:,.0f} bytes a member of server processes, goal {GOAL_BYTES:,}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
