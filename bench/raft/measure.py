"""Compares groupd's Raft with stock pysyncobj: speed, CPU, failover and recovery, in processes on loopback.

A load keeps a number of 100-byte records under way; what is submitted in one loop iteration is one batch.
groupd makes one Raft entry of a batch. Stock makes one entry of each record, as its manual shows it, unless
the application groups them itself ("grouped"). Stock never syncs its journal, so there is no column of it
with sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

from bench.raft.engine import OUTSTANDING_MAX, Options
from bench.raft.group import Group, ReplicaDied, ReplicaProcess

OUTSTANDING: Final = (1, 32, OUTSTANDING_MAX)
ATTEMPTS: Final = 3
"""How often a load begins anew when leadership is lost: another program may have had the processor."""
FAILOVER_TIMEOUT_S: Final = 20.0
FILL_RECORDS: Final = 32
FILL_S: Final = 0.5
FILL_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.005
GIB: Final = 2**30
MIB: Final = 2**20
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How long and how often things are measured."""

    seconds: float = 1.5
    """The length of each load."""
    kills: int = 10
    """How many leaders are killed, and how many hand over, in each kind of group that is measured so."""
    idle_seconds: float = 10.0
    journal_mib: int = 256
    with_stock: bool = True


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of group."""

    name: str
    options: Options
    kills_max: int = 0
    """The most failovers that do not take too long; 0: no failover, transfer and idling are measured."""


def _options(engine: str, **others: bool) -> Options:
    return Options(engine=engine, number=0, ports=(), directory="", **others)


NO_SYNC: Final = Variant("groupd, no sync", _options("groupd"))
SYNC: Final = Variant("groupd, sync", _options("groupd", durable=True), kills_max=100)
DEFAULT: Final = Variant("stock, default", _options("stock", tuned=False, grouped=False), kills_max=3)
DEFAULT_JOURNAL: Final = Variant(
    "stock, default, journal", _options("stock", tuned=False, grouped=False, durable=True)
)
TUNED: Final = Variant("stock, tuned", _options("stock", grouped=False), kills_max=100)
TUNED_JOURNAL: Final = Variant("stock, tuned, journal", _options("stock", grouped=False, durable=True))
GROUPED: Final = Variant("stock, tuned, grouped", _options("stock"))
GROUPED_JOURNAL: Final = Variant("stock, tuned, grouped, journal", _options("stock", durable=True))
OURS: Final = (NO_SYNC, SYNC)
STOCK: Final = (DEFAULT, DEFAULT_JOURNAL, TUNED, TUNED_JOURNAL, GROUPED, GROUPED_JOURNAL)


@dataclass(slots=True)
class Figures:
    """The figures of one variant. CPU is user and system time of whole processes; the leader's includes the
    load's own."""

    name: str
    p50_ms: float | None = None
    """The latency of a record that is alone under way, from its submission until it is applied on the
    leader."""
    p99_ms: float | None = None
    per_s: dict[int, float] = field(default_factory=dict)
    """The records per second, by how many are under way."""
    leader_us: dict[int, float] = field(default_factory=dict)
    """The leader's CPU time per record, by how many are under way."""
    follower_us: dict[int, float] = field(default_factory=dict)
    """The mean follower's CPU time per record, by how many are under way."""
    idle_leader: float | None = None
    """The share of a core that an idle leader takes."""
    idle_follower: float | None = None
    failover_ms: list[float] = field(default_factory=list)
    """The time from SIGKILL of the leader until its successor commits its first write."""
    transfer_ms: list[float] = field(default_factory=list)
    """The time from the order to hand over until the new leader commits its first write."""
    recovery_s_per_gib: float | None = None
    """The time from opening a replica's journal until all of it is applied, per GiB."""
    recovered_mib: float | None = None
    leaders_lost: int = 0
    """How many loads began anew because leadership was lost."""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Result:
    figures: dict[str, Figures]
    seconds: float
    foreign_load: float
    """The share of all cores that other programs had meanwhile."""


def measure(work: Work, say: Say) -> Result:
    """Measure all that is asked for. Variants that fail have `problems` instead of figures."""
    variants = OURS + (STOCK if work.with_stock else ())
    figures = {variant.name: Figures(variant.name) for variant in variants}
    began, busy, own = time.monotonic(), _busy_s(), _own_cpu_s()
    asyncio.run(_measure(work, variants, figures, say))
    seconds = time.monotonic() - began
    foreign_s = max(0.0, (_busy_s() - busy) - (_own_cpu_s() - own))
    return Result(figures, seconds, foreign_s / seconds / (os.cpu_count() or 1))


async def _measure(work: Work, variants: tuple[Variant, ...], figures: dict[str, Figures], say: Say) -> None:
    for variant in variants:
        say(
            f"{variant.name}: {', '.join(map(str, OUTSTANDING))} records outstanding, {work.seconds:g} s each"
        )
        await _noting(figures[variant.name], _loads(variant, work, figures[variant.name]))
    lively = [variant for variant in variants if variant.kills_max]
    say(f"idling for {work.idle_seconds:g} s: {'; '.join(variant.name for variant in lively)}")
    idling = (_noting(figures[each.name], _idle(each, work, figures[each.name])) for each in lively)
    await asyncio.gather(*idling)
    for variant in lively:
        kills = min(work.kills, variant.kills_max)
        say(f"{variant.name}: {work.kills} transfers, {kills} kills of the leader")
        await _noting(figures[variant.name], _successions(variant, work, figures[variant.name]))
    for variant in variants:
        if variant in (NO_SYNC, GROUPED_JOURNAL):
            say(f"{variant.name}: recovery of a journal of {work.journal_mib} MiB")
            await _noting(figures[variant.name], _recovery(variant, work, figures[variant.name]))


async def _noting(figures: Figures, measurement: Any) -> None:
    try:
        await measurement
    except (TimeoutError, ReplicaDied, LeadershipLost) as error:
        figures.problems.append(f"{error!r}")


# -- load -------------------------------------------------------------------------------------------


class LeadershipLost(Exception):
    """Leadership was lost in every attempt at a load."""


async def _loads(variant: Variant, work: Work, figures: Figures) -> None:
    async with Group(variant.options, 3) as group:
        for outstanding in OUTSTANDING:
            told = await _load(group, outstanding, work.seconds, figures)
            figures.per_s[outstanding] = told["per_s"]
            figures.leader_us[outstanding] = told["leader_us"]
            figures.follower_us[outstanding] = told["follower_us"]
            if told["p50_ms"] is not None:
                figures.p50_ms, figures.p99_ms = told["p50_ms"], told["p99_ms"]


async def _load(group: Group, outstanding: int, seconds: float, figures: Figures) -> dict[str, Any]:
    for _ in range(ATTEMPTS):
        leader = await group.leader()
        before = await group.cpu_s()
        told = await leader.ask("load", outstanding=outstanding, seconds=seconds)
        after = await group.cpu_s()
        if "lost" in told:
            figures.leaders_lost += 1
            continue
        us = {each: (after[each] - before[each]) / told["records"] * 1e6 for each in after}
        told["leader_us"] = us.pop(leader)
        told["follower_us"] = statistics.mean(us.values())
        return told
    raise LeadershipLost(f"{ATTEMPTS} times with {outstanding} records outstanding")


# -- idling, succession, recovery ---------------------------------------------------------------------


async def _idle(variant: Variant, work: Work, figures: Figures) -> None:
    async with Group(variant.options, 3) as group:
        leader = await group.calm_leader()
        began, before = time.monotonic(), await group.cpu_s()
        await asyncio.sleep(work.idle_seconds)
        after, seconds = await group.cpu_s(), time.monotonic() - began
        parts = {each: (after[each] - before[each]) / seconds for each in after}
        figures.idle_leader = parts.pop(leader)
        figures.idle_follower = statistics.mean(parts.values())


async def _successions(variant: Variant, work: Work, figures: Figures) -> None:
    async with Group(variant.options, 3) as group:
        await group.calm_leader()
        for _ in range(work.kills):
            figures.transfer_ms.append(await _transfer(group))
        for _ in range(min(work.kills, variant.kills_max)):
            figures.failover_ms.append(await _failover(group))


async def _transfer(group: Group) -> float:
    leader = await group.leader()
    heirs = _heirs(group, leader)
    told = await leader.ask("transfer")
    if not told["begun"]:
        raise LeadershipLost("a transfer could not begin")
    return (await _first_commit(heirs) - float(told["at"])) * 1000


async def _failover(group: Group) -> float:
    leader = await group.calm_leader()
    heirs = _heirs(group, leader)
    killed_at = time.monotonic()
    await leader.kill()
    gap_ms = (await _first_commit(heirs) - killed_at) * 1000
    await leader.start()
    return gap_ms


def _heirs(group: Group, leader: ReplicaProcess) -> list[asyncio.Future[dict[str, Any]]]:
    """Have each other replica commit a record as soon as it leads. Returns the futures of their answers."""
    return [replica.begin("commit_when_leading") for replica in group.others(leader)]


async def _first_commit(heirs: list[asyncio.Future[dict[str, Any]]]) -> float:
    done, _ = await asyncio.wait(heirs, timeout=FAILOVER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    if not done:
        raise TimeoutError(f"no successor has committed a record within {FAILOVER_TIMEOUT_S:g} s")
    return min(float(each.result()["at"]) for each in done)


async def _recovery(variant: Variant, work: Work, figures: Figures) -> None:
    """Measure the recovery of a group of one replica, which nothing but its disk can delay."""
    options = _options(variant.options.engine, durable=variant.options.engine == "stock", compacts=False)
    async with Group(options, 1) as group:
        (replica,) = group.replicas
        await group.leader()
        await _fill(replica, work.journal_mib * MIB)
        held = await replica.ask("status")
        await replica.stop()
        await replica.start()
        ready_at = time.monotonic()
        async with asyncio.timeout(FILL_TIMEOUT_S):
            while (status := await replica.ask("status"))["applied"] < held["applied"]:
                await asyncio.sleep(POLL_S)
        seconds = status["opened_s"] + time.monotonic() - ready_at
        figures.recovered_mib = held["journal_bytes"] / MIB
        figures.recovery_s_per_gib = seconds / (held["journal_bytes"] / GIB)


async def _fill(replica: ReplicaProcess, size: int) -> None:
    with contextlib.suppress(TimeoutError):  # then what there is by now is recovered
        async with asyncio.timeout(FILL_TIMEOUT_S):
            while (await replica.ask("status"))["journal_bytes"] < size:
                await replica.ask("load", outstanding=FILL_RECORDS, seconds=FILL_S)


# -- the machine ------------------------------------------------------------------------------------


def _busy_s() -> float:
    """The CPU time of all processes of this machine."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _own_cpu_s() -> float:
    """The CPU time of this process and of the replicas that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
