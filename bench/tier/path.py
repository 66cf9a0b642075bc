"""`groupd bench path`: what one request at a low rate costs each process on its way, in counts.

Some requests come one after the other, with pauses, so that every process sleeps in between as it does where
tiers live. Counted are wake-ups of our threads and of Ray's (bench/ground/threads.py), calls of Python's and
of C's functions on the loop's thread (path_counter.py), and system calls (strace), each in a run of its own;
what the idle process does in the same time is taken off. Counts do not depend on how busy the machine is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from actors.network.wire import Wire
from actors.protocol.java_hash import partition_for
from bench.ground.threads import Threads, threads_of
from bench.ground.throwaway import Tier
from bench.peers.members import Member, find_coordinator
from bench.peers.settling import settle_group
from bench.tier import path_counter
from bench.tier.idle import OURS, owner

TOPIC: Final = "path"
PARTITIONS: Final = 10
GROUP: Final = "path"
CLIENT: Final = "bench"
SESSION_TIMEOUT_MS: Final = 300_000
WARM_UP: Final = 150
WARM_UP_PAUSE_S: Final = 0.02
STRACE_START_S: Final = 1.0
LEADER: Final = "leader"
WAITED_FOR: Final = "follower, waited for"
OTHER: Final = "follower, other"
BROKER: Final = "broker of the leader's node"

Request = Callable[[], Awaitable[None]]


class Plan(NamedTuple):
    """How many requests of each sort are sent, and how long each is waited after."""

    requests: int
    pause_s: float


class Cost(NamedTuple):
    """What one request costs one process, less what the idle process does."""

    work: str
    process: str
    wakes: float
    """How often threads of ours woke."""
    ray_wakes: float
    python: float
    c: float
    syscalls: float | None
    """How many system calls were made; None if they were not counted."""
    functions: Mapping[str, float]
    """How often each function was called."""


class Counts(NamedTuple):
    """What a process did in one run."""

    wakes: int = 0
    ray_wakes: int = 0
    python: int = 0
    c: int = 0
    syscalls: int | None = None
    functions: Mapping[str, int] = {}


def measure(plan: Plan, say: Callable[[str], None]) -> list[Cost]:
    """Start a tier of three nodes and three copies, send the requests, and stop it."""
    with _counters() as folder:
        say("a tier of 3 nodes starts")
        with Tier() as tier:
            admin = AdminClient({"bootstrap.servers": tier.bootstrap})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
            return asyncio.run(_Path(tier, folder, plan, say).costs())


@contextlib.contextmanager
def _counters() -> Iterator[Path]:
    """Have the processes that are started meanwhile wait for being told to count."""
    folder = Path(tempfile.mkdtemp(prefix="groupd-path-"))
    (folder / "sitecustomize.py").write_text(path_counter.SITE)
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", path_counter.FOLDER)}
    root = str(Path(__file__).resolve().parents[2])
    paths = [str(folder), root, *filter(None, [before["PYTHONPATH"]])]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), path_counter.FOLDER: str(folder)})
    try:
        yield folder
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


class _Path:
    """The path of requests through one tier."""

    def __init__(self, tier: Tier, folder: Path, plan: Plan, say: Callable[[str], None]) -> None:
        self._tier = tier
        self._folder = folder
        self._plan = plan
        self._say = say
        self._pids: dict[str, int] = {}
        """What a process is -> its id. The followers are told apart by what they do."""

    async def costs(self) -> list[Cost]:
        [member] = await settle_group(("127.0.0.1", self._tier.port), GROUP, 1)
        client = _Client(await Wire.connect(*await find_coordinator(member.host, member.port, GROUP)), member)
        self._find_processes()
        self._say(f"warming up: {WARM_UP} commits")
        await _send(client.commit, Plan(WARM_UP, WARM_UP_PAUSE_S))
        costs: list[Cost] = []
        works = {
            "OffsetCommit of 10": client.commit,
            "Heartbeat": client.heartbeat,
            "JoinGroup and SyncGroup": client.join,
        }
        for work, request in works.items():
            self._say(f"{work}: {self._plan.requests} requests, {self._plan.pause_s * 1000:g} ms apart")
            await _send(request, self._plan)
            costs += await self._cost(work, request)
        await client.wire.close()
        return costs

    def _find_processes(self) -> None:
        status = self._tier.status()
        partition = partition_for(GROUP, len(status["partitions"]))
        replicas = [row for row in self._tier.replicas() if row["partition"] == partition]
        [leader] = [row for row in replicas if row["serving"]]
        followers = [row["pid"] for row in replicas if row is not leader]
        brokers = {node["node_id"]: node["pid"] for node in status["nodes"]}
        self._pids = {
            LEADER: leader["pid"],
            WAITED_FOR: followers[0],
            OTHER: followers[1],
            BROKER: brokers[leader["node_id"]],
        }

    async def _cost(self, work: str, request: Request) -> list[Cost]:
        busy, idle = await self._counted(request), await self._counted(None)
        net = {
            name: _less(work, name, busy[pid], idle[pid], self._plan.requests)
            for name, pid in self._pids.items()
        }
        if net[OTHER].python > net[WAITED_FOR].python:
            first, second = net[OTHER], net[WAITED_FOR]
            net[WAITED_FOR] = first._replace(process=WAITED_FOR)
            net[OTHER] = second._replace(process=OTHER)
        return list(net.values())

    async def _counted(self, request: Request | None) -> dict[int, Counts]:
        """Count three times, in runs of the same length: wake-ups, calls, system calls."""
        pids = list(self._pids.values())
        roles = {pid: name for name, pid in self._pids.items()}
        before = {pid: threads_of(pid) for pid in pids}
        await self._run(request)
        wakes = {pid: _wakes(before[pid], threads_of(pid), roles[pid]) for pid in pids}
        for pid in pids:
            path_counter.ask(self._folder, pid, path_counter.ON)
        await self._run(request)
        calls = {pid: path_counter.ask(self._folder, pid, path_counter.OFF) for pid in pids}
        syscalls: Mapping[int, int | None] = dict.fromkeys(pids)
        if shutil.which("strace") is not None:
            traces = {pid: _trace(pid) for pid in pids}
            await asyncio.sleep(STRACE_START_S)
            await self._run(request)
            syscalls = {pid: _traced(trace) for pid, trace in traces.items()}
        return {
            pid: Counts(
                *wakes[pid],
                calls[pid]["python"],
                calls[pid]["c"],
                syscalls[pid],
                calls[pid]["functions"],
            )
            for pid in pids
        }

    async def _run(self, request: Request | None) -> None:
        if request is None:
            await asyncio.sleep(self._plan.requests * self._plan.pause_s)
        else:
            await _send(request, self._plan)


class _Client:
    """The only member of a group, on one connection."""

    def __init__(self, wire: Wire, member: Member) -> None:
        self.wire = wire
        self._member = member
        self._offset = 0

    async def commit(self) -> None:
        self._offset += 1
        fields = self._member.commit_fields(TOPIC, PARTITIONS, self._offset)
        answer = await self.wire.call("offset_commit", 8, **fields)
        errors = {row["error_code"] for topic in answer["topics"] for row in topic["partitions"]}
        assert errors == {0}, f"the commit was refused: {errors}"

    async def heartbeat(self) -> None:
        member = self._member
        answer = await self.wire.call(
            *("heartbeat", 4),
            group_id=member.group_id,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=None,
        )
        assert answer["error_code"] == 0, f"the heartbeat was refused: {answer}"

    async def join(self) -> None:
        """Join again, as a leader does that wants another assignment, and hand the assignment in."""
        named: dict[str, Any] = {"group_id": self._member.group_id, "member_id": self._member.member_id}
        joined = await self.wire.call(
            *("join_group", 5),
            **named,
            group_instance_id=None,
            session_timeout=SESSION_TIMEOUT_MS,
            rebalance_timeout=SESSION_TIMEOUT_MS,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\1"}],
        )
        assert joined["error_code"] == 0, f"the join was refused: {joined}"
        self._member = self._member._replace(generation_id=joined["generation_id"])
        synced = await self.wire.call(
            *("sync_group", 3),
            **named,
            group_instance_id=None,
            generation_id=joined["generation_id"],
            assignments=[{"member_id": self._member.member_id, "assignment": b"\0\1"}],
        )
        assert synced["error_code"] == 0, f"the sync was refused: {synced}"


async def _send(request: Request, plan: Plan) -> None:
    """Send requests one after the other, at the pace of the plan as long as answers are quicker."""
    for _ in range(plan.requests):
        began = time.monotonic()
        await request()
        await asyncio.sleep(max(0.0, began + plan.pause_s - time.monotonic()))


def _wakes(before: Threads, after: Threads, role: str) -> tuple[int, int]:
    """Return how often our threads woke, and Ray's."""
    found: Counter[str] = Counter()
    for thread_id, thread in after.items():
        was = before.get(thread_id)
        found[owner(thread.name, role)] += thread.switches - (was.switches if was else 0)
    return found[OURS], found.total() - found[OURS]


def _trace(pid: int) -> subprocess.Popen[str]:
    command = ["strace", "-c", "-f", "-p", str(pid)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _traced(trace: subprocess.Popen[str]) -> int | None:
    """End a trace. Return how many system calls it saw; None if it may not look."""
    trace.send_signal(signal.SIGINT)
    return calls_of(trace.communicate()[1])


def calls_of(summary: str) -> int | None:
    """Return the number of calls that a summary of strace names at its end; None if it names none."""
    for line in summary.splitlines():
        if line.endswith(" total"):
            return int(line.split()[3])
    return None


def _less(work: str, process: str, busy: Counts, idle: Counts, requests: int) -> Cost:
    syscalls = None
    if busy.syscalls is not None and idle.syscalls is not None:
        syscalls = (busy.syscalls - idle.syscalls) / requests
    functions = {
        name: (count - idle.functions.get(name, 0)) / requests for name, count in busy.functions.items()
    }
    return Cost(
        work,
        process,
        (busy.wakes - idle.wakes) / requests,
        (busy.ray_wakes - idle.ray_wakes) / requests,
        (busy.python - idle.python) / requests,
        (busy.c - idle.c) / requests,
        syscalls,
        functions,
    )


def as_json(costs: Sequence[Cost], plan: Plan) -> dict[str, Any]:
    """Return everything that was counted."""
    return {"plan": plan._asdict(), "costs": [cost._asdict() for cost in costs]}
