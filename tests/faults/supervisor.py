"""Starts, kills and freezes the three processes; starts anew whoever left for that, as Ray does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from actors.replica.host import EXIT_RESTART
from tests.faults.process import EXIT_REFUSED
from tests.faults.shape import REPLICAS, control_socket, directory_of, disk_of

DEADLINE_S = 45.0
POLL_S = 0.02
CONTROL_TIMEOUT_S = 2.0
LOG_TAIL_BYTES = 2_000
REPOSITORY = Path(__file__).resolve().parents[2]
T = TypeVar("T")


class Supervisor:
    """Use as `async with Supervisor(tmp_path) as group`: all three run inside, none is left after."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_dir = Path(tempfile.mkdtemp(prefix="faults-"))
        """Short, because a socket's path may have at most 107 bytes."""
        self.ended: list[str] = []
        """Every process that ended without being killed, and why."""
        self.refusals: dict[int, str] = {}
        """Why the process of a replica that is down now ended by itself."""
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for replica in REPLICAS:
            disk_of(root, replica).mkdir(exist_ok=True)

    async def __aenter__(self) -> Supervisor:
        self._watching = asyncio.create_task(self._watch())
        try:
            for replica in REPLICAS:
                self.start(replica)
            await self.all_ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *outcome: object) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        self.kill(*REPLICAS)
        shutil.rmtree(self.run_dir)

    # Processes.

    def start(self, replica: int) -> None:
        assert replica not in self._processes, f"replica {replica} runs"
        self.refusals.pop(replica, None)
        command = [sys.executable, "-m", "tests.faults.process"]
        command += [str(self.root), str(self.run_dir), str(replica)]
        with self._log(replica).open("ab") as log_file:
            self._processes[replica] = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=log_file, stderr=log_file
            )

    def kill(self, *replicas: int) -> None:
        """SIGKILL to each that runs; all of them before any is waited for."""
        processes = [self._processes.pop(replica) for replica in replicas if replica in self._processes]
        for process in processes:
            process.kill()
        for process in processes:
            _bury(process)

    def pause(self, replica: int) -> Callable[[], None]:
        """SIGSTOP. Returns what lets this very process go on; a process started since is left alone."""
        process = self._processes[replica]
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def pid(self, replica: int) -> int:
        return self._processes[replica].pid

    @property
    def running(self) -> frozenset[int]:
        return frozenset(self._processes)

    async def _watch(self) -> None:
        while True:
            for replica, process in list(self._processes.items()):
                if process.poll() is not None:
                    self._ended(replica)
            await asyncio.sleep(POLL_S)

    def _ended(self, replica: int) -> None:
        process = self._processes.pop(replica)
        _bury(process)
        tail = self.log_tail(replica)
        reason = tail.splitlines()[-1] if process.returncode == EXIT_REFUSED else tail
        self.ended.append(f"replica {replica} ended with exit code {process.returncode}: {reason}")
        if process.returncode == EXIT_RESTART:
            self.start(replica)
        else:
            self.refusals[replica] = reason

    def _log(self, replica: int) -> Path:
        return self.root / f"replica-{replica}.log"

    def log_tail(self, replica: int) -> str:
        return self._log(replica).read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def directory(self, replica: int) -> Path:
        return directory_of(self.root, replica)

    # What replicas tell of themselves.

    async def ask(self, replica: int, command: str, **arguments: Any) -> dict[str, Any] | None:
        """Return a replica's answer, or None if it does not answer: it is down, starting or frozen."""
        try:
            async with asyncio.timeout(CONTROL_TIMEOUT_S):
                path = str(control_socket(self.run_dir, replica))
                reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
                try:
                    writer.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
                    line = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None
        answer: dict[str, Any] | None = json.loads(line) if line else None
        return answer

    async def leader(self) -> int | None:
        """The replica that answers clients, if there is one now."""
        statuses = await asyncio.gather(*(self.ask(replica, "status") for replica in REPLICAS))
        for replica, status in enumerate(statuses):
            if status is not None and status["answers"]:
                return replica
        return None

    async def any_leader(self) -> int:
        """The replica that answers clients, as soon as there is one."""
        return await until(self.leader, "a replica leads", self.story)

    async def ready(self, replica: int) -> str | None:
        """Wait until a replica that was started takes part. Returns why it refused to, if it did."""

        async def decided() -> bool:
            return replica in self.refusals or await self.ask(replica, "status") is not None

        await until(decided, f"replica {replica} starts or refuses to", self.story)
        return self.refusals.get(replica)

    async def all_ready(self) -> None:
        for replica in REPLICAS:
            refusal = await self.ready(replica)
            assert refusal is None, f"replica {replica} does not start: {refusal}"

    async def snapshots_taken(self) -> None:
        """Wait until every replica has a snapshot, and so a journal of several segments."""

        async def taken() -> bool:
            statuses = [await self.ask(replica, "status") for replica in REPLICAS]
            return all(status is not None and status["snapshot_index"] > 0 for status in statuses)

        await until(taken, "all replicas have taken a snapshot", self.story)

    async def admit(self, replica: int) -> None:
        """Make whoever runs as `replica` now a voter in place of whoever it was before."""

        async def is_voter() -> bool:
            statuses = [await self.ask(each, "status") for each in REPLICAS]
            leader = await self.leader()
            if leader is None or None in statuses:
                return False
            target = {status["id"]: each + 1 for each, status in enumerate(statuses) if status is not None}
            told = await self.ask(leader, "members", target=target)
            members = [] if told is None else told["members"]
            return {each["id"] for each in members} == set(target) and all(each["votes"] for each in members)

        await until(is_voter, f"replica {replica} is admitted", self.story)

    async def equal_states(self) -> dict[str, dict[int, int]]:
        """Wait until all three have applied all there is, and return the offsets (by group and partition) on
        which they agree. Call it while nobody commits. Raises AssertionError if they do not agree."""
        states: list[dict[str, Any] | None] = []

        async def settled() -> bool:
            states[:] = await asyncio.gather(*(self.ask(replica, "state") for replica in REPLICAS))
            if not all(state is not None and state["settled"] for state in states):
                return False
            return len({state["applied_index"] for state in states if state is not None}) == 1

        await until(settled, "all replicas have applied the same entries", self.story)
        first, *others = [state for state in states if state is not None]
        for other in others:
            assert other["offsets"] == first["offsets"], "states differ: offsets at equal index"
            assert other["digest"] == first["digest"], "states differ: records at equal index"
        return {
            group_id: {int(partition): offset for partition, offset in offsets.items()}
            for group_id, offsets in first["offsets"].items()
        }

    async def story(self) -> str:
        """Return what helps to see why a wait was in vain: every replica's status and the end of its log."""
        lines = []
        for replica in REPLICAS:
            lines.append(f"-- replica {replica}: {await self.ask(replica, 'status')}")
            lines.append(self.log_tail(replica))
        return "\n".join(lines)


def _bury(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


async def _no_story() -> str:
    return ""


async def until(
    look: Callable[[], Awaitable[T | None]],
    what: str,
    story: Callable[[], Awaitable[str]] = _no_story,
    deadline_s: float = DEADLINE_S,
) -> T:
    """Poll until `look()` gives something other than None and False, and return that; fails naming `what` and
    telling the story otherwise."""
    deadline = time.monotonic() + deadline_s
    while True:
        seen = await look()
        if seen is not None and seen is not False:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}\n{await story()}")
        await asyncio.sleep(POLL_S)
