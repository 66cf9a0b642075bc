"""One of those compared: a server, or a cluster of them, that the command starts and stops by itself."""

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
"""Linux: a process' CPU clock, which counts in nanoseconds where /proc counts in hundredths of a second."""
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
"""The same on every coordinator that has settings. Sessions are long: members that a load does not drive for
minutes stay."""


class Peer(ABC):
    """Made, started and stopped once; `kept` is for what scenarios make once and use in every run."""

    name: ClassVar[str]
    warm_up_s: ClassVar[float] = 2.0
    """Seconds of full load before anything counts, unless all is quick."""
    coordinates: ClassVar[bool] = True
    """False: it has no groups, and answers members that nobody ever made."""
    copies: ClassVar[int] = 1
    group_size: ClassVar[int] = 5
    """Members of a group that a load drives."""
    connections_max: ClassVar[int] = 100_000
    """It takes no more in the time that there is."""
    session_timeout_ms: ClassVar[int] = 7_200_000
    """Theirs: nobody beats for those that no load drives at the moment."""
    settings: ClassVar[Mapping[str, str]] = SETTINGS
    settle_s: ClassVar[float] = 0.0
    """Until what it writes behind is written."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.kept: dict[str, Any] = {}
        self.generators = Generators()
        self._versions: dict[int, int] = {}
        self.launched_at = 0.0
        """When its processes were started, without what is made only once; monotonic."""

    @property
    def warm_s(self) -> float:
        return QUICK_WARM_S if self.options.quick else self.warm_up_s

    def missing(self) -> str:
        """Why it cannot run here; empty when it can."""
        return ""

    @abstractmethod
    def start(self) -> None:
        """Returns when its processes listen. Raises RuntimeError with their words."""

    def stop(self) -> None:
        """May be called at any time, more than once; it can be started again, with nothing in it."""
        self.generators.close()
        self.kept.clear()
        self._versions.clear()
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """End its processes, if there are any."""

    @property
    @abstractmethod
    def bootstrap(self) -> list[Address]:
        """The address of every node."""

    @abstractmethod
    def pids(self) -> list[int]:
        """All its server processes."""

    def own_pids(self) -> list[int]:
        """Those of them that run its own code: ours without Ray's."""
        return self.pids()

    @abstractmethod
    def software(self) -> str:
        """Name and version, for the report."""

    def live_bytes(self) -> int:
        """What it holds in memory."""
        return int(pss_mib([psutil.Process(pid) for pid in self.pids()]) * 2**20)

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        """SIGKILL what coordinates most of these groups: (when, monotonic; which of them)."""
        raise Refused("nobody takes over from a single node")

    def mend(self) -> None:
        """Have what was killed back, and wait until it is."""
        raise Refused("nothing of it can be killed")

    def needs_groups(self) -> None:
        """Refused: it has none."""
        if not self.coordinates:
            raise Refused("it has no groups")

    def needs_connections(self, count: int) -> None:
        """Refused: it does not take so many."""
        if count > self.connections_max:
            raise Refused(f"{count:,} connections are too many for it")

    def version(self, api_key: int, wanted: int) -> int:
        """The newest version of an API that the peer and we have. Refused: it does not have the API."""
        if not self._versions:
            self._versions = asyncio.run(_api_versions(self.bootstrap[0]))
        if api_key not in self._versions:
            raise Refused(f"it does not serve {name_of(api_key)}")
        return min(wanted, self._versions[api_key])

    def wait_until_ready(self) -> None:
        """Until every offsets partition answers: Kafka makes them when the first group is looked for."""
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
    """CPU of processes since it was made, to the microsecond; one that ended meanwhile counts as nothing."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._machine = _machine_cpu_s()
        self._before = _cpu_by_pid(pids)

    def seconds(self) -> float:
        return sum(self.by_pid().values())

    def by_pid(self) -> dict[int, float]:
        now = _cpu_by_pid(list(self._before))
        return {pid: now[pid] - self._before[pid] for pid in now}

    def machine_seconds(self) -> float:
        """CPU seconds of everything on this machine."""
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
    """SIGTERM, then SIGKILL."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
