"""`groupd bench million` serves very many idle members over few connections, each at its interval.

It starts a tier on this machine, with one node and one replica. Small KIP-848 groups come one after the other
until all members are there. Each member then heartbeats at the interval that it is told, which the tier
stretches to keep to its budget of heartbeats per second (`group.heartbeat.budget.per.second`, for each
offsets partition). Members share connections, which real clients do not: the cost of connections is not in
the figures.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import uvloop
from rich.console import Console

from actors.coordinator.ground.partitions import count
from actors.ground.records import TopicPartitions
from actors.network.wire import Wire
from actors.protocol.java_hash import partition_for
from actors.protocol.messages import ConsumerGroupHeartbeatResponse
from bench.ground.throwaway import Tier, pss_mib
from bench.member.answers import consumer_beaten
from bench.member.consumer import JOINS, ConsumerMember
from bench.member.reactions import Reaction
from bench.member.requests import encoded
from bench.peers.consumer import terms
from bench.peers.lines import RETRY_S, Address, Line, coordinators, framed, open_all
from bench.peers.living import AGAIN
from cluster.cli.tables import Table

TOPIC: Final = "idle"
GOAL_BYTES: Final = 1_024
IN_TIME_S: Final = 1.0
"""How soon after it was due a heartbeat has to be answered to be in time."""
JOINING_MAX: Final = 20
"""How many joins a connection has under way at most: members that are due meanwhile wait for them."""
BEATING_MAX: Final = 1_000
SLOT_S: Final = 0.02
LINES_A_PARTITION: Final = 64
"""How many connections each offsets partition has: a connection has one request served at a time, and a join
is served once it is on disk."""
COORDINATORS_ASKED_MAX: Final = 1_000
HIGHEST_INTERVAL_MS: Final = 120_000
SESSION_TIMEOUT_MS: Final = 3 * HIGHEST_INTERVAL_MS
Due = tuple[float, ConsumerMember]
"""A member, and when its next request is due."""


class Plan(NamedTuple):
    members: int
    group_size: int
    partitions: int
    """The number of offsets partitions, and so of processes that share the members."""
    seconds: float
    """How long all members are there and heartbeat."""
    budget: int
    """The heartbeats per second that each offsets partition allows."""


class Figures(NamedTuple):
    plan: Plan
    join_s: float
    lost: Counter[int]
    """The errors that members got: a member that gets one is out of its group."""
    beats: int
    in_time: int
    late_ms: tuple[float, float]
    """How long after they were due heartbeats were answered: median and p99.9 of a sample."""
    interval_s: float
    """The median of the intervals that members were told last."""
    cpu_share: float
    """The share of one processor that all server processes took while all members were there."""
    member_bytes: float
    """The bytes by which the server processes grew for each member (PSS)."""
    owned: int
    """How many partitions all members have."""


class Crowd:
    """The members of one connection, in the order in which they are due."""

    def __init__(self, line: Line, group_ids: Sequence[str], group_size: int) -> None:
        self._line = line
        self._waiting = self._members(group_ids, group_size)
        self._slots: dict[int, list[Due]] = {}
        self._assignments: dict[TopicPartitions, TopicPartitions] = {}
        """The assignments so far, each once: groups have equal ones, and a million tuples would take much
        memory."""
        self.members: list[ConsumerMember] = []
        self.lost: Counter[int] = Counter()
        self.joined = asyncio.Event()
        self.joined_members = 0
        self.lates_s: list[float] = []
        """How late each heartbeat since `measure` was answered."""
        self._next_slot = int(time.monotonic() / SLOT_S)

    @staticmethod
    def _members(group_ids: Sequence[str], group_size: int) -> Iterator[ConsumerMember]:
        for group_id in group_ids:
            alike = terms(group_id, [TOPIC])
            for number in range(group_size):
                yield ConsumerMember(alike, f"{group_id}-{number:012d}")

    async def run(self) -> None:
        """Let the members heartbeat until the task is cancelled. Raises Closed."""
        while True:
            due = self._due()
            newcomers = list(islice(self._waiting, JOINING_MAX))
            self.members += newcomers
            for first in range(0, len(due), BEATING_MAX):
                await self._serve(due[first : first + BEATING_MAX])
            await self._serve([(0.0, member) for member in newcomers])
            if not (due or newcomers):
                self.joined.set()
                await asyncio.sleep(SLOT_S / 2)

    def _due(self) -> list[Due]:
        found: list[Due] = []
        slot = int(time.monotonic() / SLOT_S)
        while self._next_slot < slot:
            found += self._slots.pop(self._next_slot, ())
            self._next_slot += 1
        return found

    async def _serve(self, members: Sequence[Due]) -> None:
        """Send the requests of some members; the answers come in order."""
        asked = [(*due, self._ask(due[1])) for due in members]
        for due_s, member, answer in asked:
            self._take(due_s, member, consumer_beaten(await answer))

    def _ask(self, member: ConsumerMember) -> asyncio.Future[bytes]:
        request = member.next_request(time.monotonic())
        assert request is not None, "it is due"
        return self._line.ask(framed(encoded(request)))

    def _take(self, due_s: float, member: ConsumerMember, answer: ConsumerGroupHeartbeatResponse) -> None:
        now_s, is_joining = time.monotonic(), member.epoch == JOINS
        if answer.assignment is not None:
            known = self._assignments.setdefault(answer.assignment, answer.assignment)
            answer = answer._replace(assignment=known)
        reaction = member.received(answer)
        if reaction in AGAIN:
            self._file(member, now_s + RETRY_S)
            return
        if reaction is not Reaction.FINE:
            self.lost[int(answer.error_code)] += 1
            return
        if is_joining:
            self.joined_members += 1
        else:
            self.lates_s.append(now_s - due_s)
        member.reconcile()
        self._file(member, max(now_s, member.next_deadline))

    def _file(self, member: ConsumerMember, due_s: float) -> None:
        self._slots.setdefault(max(int(due_s / SLOT_S), self._next_slot), []).append((due_s, member))


def tier_flags(plan: Plan) -> tuple[str, ...]:
    settings = {
        # A join that waits for others holds up all requests behind it on the connection.
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
        sum(count(member.owned) for member in members),
    )


async def _create_topic(bootstrap: Address, partitions: int) -> None:
    """Create the topic, with as many partitions as a group has members."""
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
    # Each connection is for groups of one offsets partition, as that of a real client is for one group.
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
    """Measure on a tier of its own. Raises Closed if the tier closes a connection."""
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
