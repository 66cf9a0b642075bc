"""`groupd bench capacity-check` puts the model beside tiers: swarms of three sizes, on a tier each.

A swarm of KIP-848 members as Java's come, settle, heartbeat and commit. From then on the CPU, memory and disk
of the tier's processes are taken from the kernel's accounts. A swarm that did not settle, lost a promise or
did not send what was planned has measured nothing, which is an error, and is said.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from bench.capacity.roles import (
    BROKER,
    FOLLOWER,
    LEADER,
    Roles,
    Used,
    Watch,
    memory_bytes,
    ours,
    roles,
)
from bench.ground.throwaway import Tier
from bench.peers.options import Failed
from bench.peers.peer import CpuClock
from bench.swarm.counted.figures import Figures
from bench.swarm.load.busy import FULL
from bench.swarm.load.driver import Launch, run_swarm
from bench.swarm.planning import scenario
from bench.swarm.planning.plan import Plan
from bench.swarm.rows.second import Second
from bench.swarm.told import report as reporting
from bench.swarm.told.comparison import at
from bench.swarm.told.report import Addition
from cluster.capacity.checked import Checked, Size, modelled
from cluster.capacity.costs import Costs, Measured
from cluster.capacity.model import Shape
from cluster.capacity.workload import Workload
from storage.history.calls import History
from storage.history.judge.findings import BROKEN

Say = Callable[[str], None]
NODES: Final = 3
PARTITIONS: Final = 4
GROUP_SIZE: Final = 10
OFFSETS: Final = 2
"""How many partitions each member has."""
INTERVAL_S: Final = 5.0
COMES_S: Final = 5.0
SETTLES_S: Final = 35.0
"""How long the members come, and how long they then have to settle. A group whose members came one by one for
longer would wait for more of them before each assignment."""
ENDS_S: Final = 3.0
"""How long before the swarm's end nothing is looked at any more."""
SENT_SHARE: Final = 0.9
"""The share of the planned requests that have to be sent."""
SEED: Final = 1
SAID: Final = {"cores": "cores", "memory_bytes": "bytes", "disk_bytes_s": "bytes of the disk a second"}
SCENARIO: Final = """
duration_s = {duration_s}

[[groups]]
name = "capacity"
count = {groups}
members = {group_size}
protocols = {{ consumer = 1 }}
topics = {{ count = 1, partitions = {partitions}, shared = true }}
commit_interval_ms = {commit_ms}
shapes = [{{ shape = "steady", within_s = {comes_s} }}]
"""


class Wanted(NamedTuple):
    """What is checked."""

    sizes: Sequence[int]
    seconds: float
    """How long the figures of a swarm are taken."""
    command: str
    machine: str


class Look:
    """Looks at a tier's processes during a part of a swarm's time; it is called with each of its seconds."""

    def __init__(self, of: Roles, began_s: float, until_s: float) -> None:
        self.used: Used | None = None
        self.memory_bytes = 0.0
        self.machine_s = self.swarm_s = 0.0
        self.window_us = (0, 0)
        self._of = of
        self.part = (began_s, until_s)
        self._watch: Watch | None = None
        self._began_us = 0

    def __call__(self, second: Second) -> None:
        began_s, until_s = self.part
        now = time.monotonic()
        if self._watch is None and second.at_s >= began_s:
            self._watch, self._began_us = Watch(list(self._of), now), int(now * 1e6)
            self._swarm = CpuClock(_swarm_pids(self._of))
        elif self._watch is not None and self.used is None and second.at_s >= until_s:
            self.used = self._watch.used(now)
            self.machine_s, self.swarm_s = self._watch.machine_s(), self._swarm.seconds()
            self.memory_bytes = memory_bytes(self._of)
            self.window_us = (self._began_us, int(now * 1e6))


def check(wanted: Wanted, costs: Costs, say: Say) -> Checked:
    """Run all sizes. A size that measured nothing has its reason among `unseen`. Raises Failed if none
    measured anything, CostsError, RuntimeError."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    sizes, foreign, unseen = list[Size](), list[float](), list[str]()
    for members in wanted.sizes:
        try:
            size, others = _size(members, wanted.seconds, costs, say)
        except Failed as error:
            say(f"nothing is shown: {error}")
            unseen.append(str(error))
            continue
        sizes.append(size)
        found = (
            f"{what} {size.modelled[name]:.3g}, {size.measured[name]:.3g}" for name, what in SAID.items()
        )
        say(f"{members:,} members: model and measured: {'; '.join(found)}")
        foreign.append(others)
    if not sizes:
        raise Failed(f"nothing was checked: {'; '.join(unseen)}")
    measured = Measured(wanted.machine, date, wanted.command, round(max(foreign), 3))
    return Checked(measured, _shape(), tuple(sizes), tuple(unseen))


def _size(members: int, seconds: float, costs: Costs, say: Say) -> tuple[Size, float]:
    """Run one swarm on a tier of its own. Returns its figures, and the share of the processors that other
    programs had. Raises Failed."""
    say(f"{members:,} members: a tier starts")
    with Tier("--nodes", str(NODES), "--replicas", str(NODES), nodes=NODES) as tier:
        of = roles(tier)
        began_s = COMES_S + SETTLES_S
        look = Look(of, began_s, began_s + seconds)
        say(f"{members:,} members: a swarm of {began_s + seconds + ENDS_S:g} s")
        with tempfile.TemporaryDirectory(prefix="groupd-capacity-") as directory:
            counted, told = _swarm(tier, _plan(members, seconds), Path(directory), look)
        if ours(roles(tier)) != ours(of):
            raise Failed(f"{members:,} members: a leadership or a process changed meanwhile: check again")
    used = proved(members, told, look)
    load = _load(_plan(members, seconds), began_s - COMES_S / 2 + seconds / 2)
    measured = figures(used, of, counted) | {"memory_bytes": look.memory_bytes}
    size = Size(load, used.seconds, modelled(load, _shape(), costs), measured)
    for figure, planned in (("heartbeats_s", load.heartbeats_per_s), ("commits_s", load.commits_per_s)):
        if not SENT_SHARE * planned <= measured[figure] <= planned / SENT_SHARE:
            what = figure.partition("_")[0]
            raise Failed(
                f"{members:,} members: {measured[figure]:,.0f} {what} a second were sent, not {planned:,.0f} "
                "as planned: that is another load"
            )
    others = look.machine_s - sum(used.cpu_s.values()) - look.swarm_s
    return size, max(0.0, others) / used.seconds / (os.cpu_count() or 1)


def _plan(members: int, seconds: float) -> Plan:
    text = SCENARIO.format(
        duration_s=COMES_S + SETTLES_S + seconds + ENDS_S,
        groups=max(1, members // GROUP_SIZE),
        group_size=GROUP_SIZE,
        partitions=GROUP_SIZE * OFFSETS,
        commit_ms=int(INTERVAL_S * 1_000),
        comes_s=COMES_S,
    )
    return scenario.parse(text, "capacity.toml").plan(SEED, prefix=f"capacity-{members}-")


def _load(plan: Plan, age_s: float) -> Workload:
    """The load as the model is told it. What a member's join cost is over when figures are taken."""
    members = len(plan.members)
    names = [name for each in plan.members for name in (each.name, each.group_id, *each.topics)]
    return Workload(
        members=members,
        name_bytes=sum(map(len, names)) / len(names),
        group_size=GROUP_SIZE,
        heartbeat_s=INTERVAL_S,
        commit_s=INTERVAL_S,
        offsets=OFFSETS,
        rebalance_s=None,
        age_s=age_s,
    )


def _shape() -> Shape:
    return Shape(machines=1, nodes=NODES, partitions=PARTITIONS, copies=NODES)


def _swarm(tier: Tier, plan: Plan, directory: Path, look: Look) -> tuple[dict[str, float], dict[str, Any]]:
    """Run a swarm and judge it. Returns how many requests of an API it sent per second while `look` looked,
    and its report."""
    bootstrap = ",".join(f"127.0.0.1:{tier.port + number}" for number in range(NODES))
    run_swarm(plan, bootstrap, directory, Launch(software="groupd"), on_second=look)
    counted: dict[str, float] = {}

    def count(history: History, _: Figures) -> Addition:
        since_us, until_us = look.window_us
        for call in history.calls:
            if since_us <= call.sent_us < until_us:
                counted[call.api] = counted.get(call.api, 0) + 1e6 / (until_us - since_us)
        return Addition()

    return counted, dict(reporting.report(directory, more=count).results)


def proved(members: int, told: dict[str, Any], look: Look) -> Used:
    """Return what was used. Raises Failed unless the swarm was there all the time and kept its promises."""
    if look.used is None:
        raise Failed(f"{members:,} members: the swarm ended before its figures could be taken")
    if at(told, "verdict", "status") == BROKEN:
        raise Failed(f"{members:,} members: {at(told, 'verdict', 'summary')}")
    busy = max((each["mean"] for each in at(told, "run", "busy") or ()), default=0.0)
    if busy >= FULL:
        raise Failed(f"{members:,} members: the swarm itself had {busy:.0%} of a core and fell behind")
    settled = at(told, "figures", "seconds", "settled") or ()
    began = int(look.part[0])
    there = settled[began : began + int(look.used.seconds)]
    if not there or min(there) < members:
        few = f"{min(there):,} of them" if there else "nobody"
        raise Failed(f"{members:,} members: {few} had settled while figures were taken")
    return look.used


def figures(used: Used, of: Roles, counted: dict[str, float]) -> dict[str, float]:
    """Return the figures of `cluster.capacity.checked`, memory excepted. A follower writes nothing but its
    journal, of which a leader has one too."""
    journal = used.per_s(used.written, of, FOLLOWER) / (NODES - 1)
    return {
        "heartbeats_s": counted.get("ConsumerGroupHeartbeat", 0.0),
        "commits_s": counted.get("OffsetCommit", 0.0),
        "cores": sum(used.cpu_s.values()) / used.seconds,
        "leaders_cores": used.cores(of, LEADER),
        "followers_cores": used.cores(of, FOLLOWER),
        "disk_bytes_s": sum(used.disk.values()) / used.seconds,
        "clients_in_bytes_s": used.per_s(used.read, of, LEADER, BROKER),
        "clients_out_bytes_s": used.per_s(used.written, of, LEADER, BROKER) - journal,
    }


def _swarm_pids(of: Roles) -> list[int]:
    """The processes that this one has started, and itself; a tier's are its own driver's."""
    own = psutil.Process()
    return [each.pid for each in (own, *own.children(recursive=True)) if each.pid not in of]
