"""A peer is one of the servers, or clusters, that are compared; the command starts and stops it by itself."""

from __future__ import annotations

import asyncio
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import psutil

from actors.catalog.table import name_of
from bench.ground.throwaway import pss_mib
from bench.peers.generators import Generators
from bench.peers.lines import Address, Line, unready
from bench.peers.options import Options, Refused

READY_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
QUICK_WARM_S: Final = 0.1
CPUCLOCK_SCHED: Final = 2
"""Linux's number of a process' CPU clock, which counts in nanoseconds; /proc counts in hundredths of a
second."""
SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "7200000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.max.session.timeout.ms": "7200000",
    "group.consumer.session.timeout.ms": "3600000",
    "auto.create.topics.enable": "false",
}
"""The settings of every coordinator that has any. Sessions are long, so that members stay that no load drives
for minutes."""


class Peer(ABC):
    """A peer, which is made, started and stopped once. `kept` is for what scenarios make once and use in
    every run."""

    name: ClassVar[str]
    warm_up_s: ClassVar[float] = 2.0
    """How many seconds of full load it needs before anything counts, unless all is quick."""
    coordinates: ClassVar[bool] = True
    """Whether it coordinates groups; False: it has none, and answers members that were never made."""
    copies: ClassVar[int] = 1
    group_size: ClassVar[int] = 5
    """How many members a group has that a load drives."""
    connections_max: ClassVar[int] = 100_000
    """How many connections it takes in reasonable time."""
    session_timeout_ms: ClassVar[int] = 7_200_000
    """The session time-out of members: those that no load drives do not heartbeat."""
    settings: ClassVar[Mapping[str, str]] = SETTINGS
    settle_s: ClassVar[float] = 0.0
    """How long it takes until everything is written that it writes in the background."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.kept: dict[str, Any] = {}
        self.generators = Generators()
        self._versions: dict[int, int] = {}
        self.launched_at = 0.0
        """When its processes were started (monotonic), not counting what is made only once."""

    @property
    def warm_s(self) -> float:
        return QUICK_WARM_S if self.options.quick else self.warm_up_s

    def missing(self) -> str:
        """Why it cannot run here; empty if it can."""
        return ""

    @abstractmethod
    def start(self) -> None:
        """Start the peer, and wait until its processes listen. Raises RuntimeError with their words."""

    def stop(self) -> None:
        """Stop the peer. May be called at any time, more than once; the peer can be started again, with
        nothing in it."""
        self.generators.close()
        self.kept.clear()
        self._versions.clear()
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """End the processes, if there are any."""

    @property
    @abstractmethod
    def bootstrap(self) -> list[Address]:
        """The addresses of all nodes."""

    @abstractmethod
    def pids(self) -> list[int]:
        """The process ids of all its server processes."""

    def own_pids(self) -> list[int]:
        """The process ids of those that run its own code: ours without Ray's."""
        return self.pids()

    @abstractmethod
    def software(self) -> str:
        """The name and version, for the report."""

    def live_bytes(self) -> int:
        """The bytes that it holds in memory."""
        return int(pss_mib([psutil.Process(pid) for pid in self.pids()]) * 2**20)

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        """Kill the process that coordinates most of these groups. Returns when (monotonic), and which
        groups."""
        raise Refused("nobody takes over from a single node")

    def mend(self) -> None:
        """Bring the killed process back, and wait until it is."""
        raise Refused("nothing of it can be killed")

    def needs_groups(self) -> None:
        """Check that it has groups. Raises Refused."""
        if not self.coordinates:
            raise Refused("it has no groups")

    def needs_connections(self, count: int) -> None:
        """Check that it takes so many connections. Raises Refused."""
        if count > self.connections_max:
            raise Refused(f"{count:,} connections are too many for it")

    def version(self, api_key: int, wanted: int) -> int:
        """The newest version of an API that the peer and we have. Raises Refused if the peer does not have
        the API."""
        if not self._versions:
            self._versions = asyncio.run(_api_versions(self.bootstrap[0]))
        if api_key not in self._versions:
            raise Refused(f"it does not serve {name_of(api_key)}")
        return min(wanted, self._versions[api_key])

    def wait_until_ready(self) -> None:
        """Wait until every offsets partition answers: Kafka makes them when the first group is looked up."""
        asyncio.run(_ready(self))


async def _api_versions(address: Address) -> dict[int, int]:
    line = await Line.open(address)
    try:
        answer = await line.call("api_versions", 0)
    finally:
        line.close()
    return {row["api_key"]: row["max_version"] for row in answer["api_keys"]}


async def _ready(peer: Peer) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while wrong := await unready(peer.bootstrap):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{peer.name} is not ready: {wrong}")
        await asyncio.sleep(POLL_S)


class CpuClock:
    """The CPU time of processes since it was made, to the microsecond; a process that ended meanwhile does
    not count."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._machine = _machine_cpu_s()
        self._before = _cpu_by_pid(pids)

    def seconds(self) -> float:
        return sum(self.by_pid().values())

    def by_pid(self) -> dict[int, float]:
        now = _cpu_by_pid(list(self._before))
        return {pid: now[pid] - self._before[pid] for pid in now}

    def machine_seconds(self) -> float:
        """The CPU seconds of everything on this machine."""
        return _machine_cpu_s() - self._machine


def _machine_cpu_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _cpu_by_pid(pids: Sequence[int]) -> dict[int, float]:
    found = {}
    for pid in pids:
        try:
            found[pid] = time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)
        except OSError:
            continue
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process by SIGTERM, then SIGKILL."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
