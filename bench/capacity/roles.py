"""The processes of a tier by what they do, and what they use: from their own accounting."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from bench.ground.throwaway import Tier, pss_mib
from bench.peers.options import Failed
from bench.peers.peer import CpuClock

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
CONTROLLER_LEADER: Final = "controller's leader"
CONTROLLER_FOLLOWER: Final = "controller's follower"
BROKER: Final = "broker"
REST: Final = "Ray"
"""The roles of processes; what is none of the others is Ray's, or the command's."""
Roles = Mapping[int, str]
"""The role of each process."""


def roles(tier: Tier) -> Roles:
    """Return the role of every process of a tier. Raises Failed unless every partition has a leader and all
    its copies answer."""
    status = tier.status()
    found = {process.pid: REST for process in tier.processes()}
    for row in (*status["partitions"], status["controller"]):
        answering = [replica for replica in row["replicas"] if replica["pid"]]
        leaders = [replica["pid"] for replica in answering if replica["serving"]]
        if len(leaders) != 1 or len(answering) < len(row["replicas"]):
            raise Failed("a replica does not answer, or a partition has no leader: nothing can be measured")
        names = (LEADER, FOLLOWER) if "partition" in row else (CONTROLLER_LEADER, CONTROLLER_FOLLOWER)
        found |= {replica["pid"]: names[replica["pid"] not in leaders] for replica in answering}
    return found | {node["pid"]: BROKER for node in status["nodes"] if node["pid"]}


def ours(of: Roles) -> Roles:
    """The processes that are no further ones of Ray's, which come and go."""
    return {pid: role for pid, role in of.items() if role != REST}


class Used(NamedTuple):
    """What processes used while something ran; bytes are those that their kernel counts."""

    seconds: float
    cpu_s: Mapping[int, float]
    read: Mapping[int, int]
    """Bytes by read(2): of clients, for a leader."""
    written: Mapping[int, int]
    """Bytes by write(2): of the journal, and for a leader to clients."""
    disk: Mapping[int, int]
    """Bytes that the disk was given to write."""

    def cores(self, of: Roles, role: str) -> float:
        """The cores that all processes of a role had."""
        return _sum(self.cpu_s, of, role) / self.seconds

    def per_s(self, counted: Mapping[int, int], of: Roles, *wanted: str) -> float:
        return sum(_sum(counted, of, role) for role in wanted) / self.seconds


def _sum(counted: Mapping[int, float], of: Roles, role: str) -> float:
    return float(sum(counted[pid] for pid, its_role in of.items() if its_role == role and pid in counted))


class Watch:
    """Counts from when it is made what processes use."""

    def __init__(self, pids: Sequence[int], at_s: float) -> None:
        self._at_s = at_s
        self._io = _io(pids)
        self._clock = CpuClock(pids)

    def used(self, at_s: float) -> Used:
        """Return what was used until now. A process that is gone counts nowhere."""
        cpu_s, now = self._clock.by_pid(), _io(list(self._io))
        counted: list[dict[int, int]] = [{}, {}, {}]
        for pid, values in now.items():
            for place, value in enumerate(values):
                counted[place][pid] = value - self._io[pid][place]
        return Used(at_s - self._at_s, cpu_s, *counted)

    def machine_s(self) -> float:
        """The CPU of everything on the machine since then."""
        return self._clock.machine_seconds()


def _io(pids: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
            said = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
            found[pid] = (said["rchar"], said["wchar"], said["write_bytes"])
    return found


def memory_bytes(of: Roles, role: str | None = None) -> float:
    """The proportional set sizes of all processes, or of those of one role."""
    pids = [pid for pid, its_role in of.items() if role in (None, its_role) and psutil.pid_exists(pid)]
    return pss_mib([psutil.Process(pid) for pid in pids]) * 2**20


def count(of: Roles, role: str) -> int:
    return sum(its_role == role for its_role in of.values())
