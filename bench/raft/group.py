"""A group of replica processes on 127.0.0.1 with their directories, for as long as a `with` lasts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from bench.raft.engine import ELECTION_MIN_S, Options
from cluster import child_process
from cluster.ports import free_ports

READY_TIMEOUT_S: Final = 60.0
ANSWER_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.02


class ReplicaDied(Exception):
    """A replica process ended without having been told to; the text has its last words."""


class ReplicaProcess:
    """The process of one replica. `ask` is called from one asyncio loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._next_id = 0
        self._log = Path(options.directory) / "stderr.log"

    async def start(self) -> None:
        """Start the replica, and wait until it can be asked. Raises ReplicaDied, TimeoutError."""
        log = self._open_log()
        self._next_id = 0  # the first line says that it is ready, and has this number
        ready = self._expect()
        with log:
            self.process = await asyncio.create_subprocess_exec(
                *child_process.python("bench.raft.replica", json.dumps(asdict(self.options))),
                env=child_process.environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self._reader = asyncio.create_task(self._read())
        await asyncio.wait_for(ready, READY_TIMEOUT_S)

    def _open_log(self) -> BinaryIO:
        self._log.parent.mkdir(exist_ok=True)
        return self._log.open("ab")

    async def ask(self, do: str, *, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> dict[str, Any]:
        """Ask the replica for something. Raises ReplicaDied, TimeoutError."""
        return await asyncio.wait_for(self.begin(do, **fields), timeout_s)

    def begin(self, do: str, **fields: Any) -> asyncio.Future[dict[str, Any]]:
        """Ask for something that may take long. Returns a future of its answer."""
        assert self.process.stdin is not None, "it is a pipe"
        answer = self._expect()
        self.process.stdin.write(json.dumps({"id": self._next_id - 1, "do": do, **fields}).encode() + b"\n")
        return answer

    async def stop(self) -> None:
        """Stop the replica as a planned stop does: what it holds is written first."""
        await self.ask("stop")
        await asyncio.wait_for(self.process.wait(), ANSWER_TIMEOUT_S)
        await self._reader

    async def kill(self) -> None:
        """End the replica by SIGKILL, and wait for its end. It may be called again."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._reader

    def _expect(self) -> asyncio.Future[dict[str, Any]]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[self._next_id] = answer
        self._next_id += 1
        return answer

    async def _read(self) -> None:
        assert self.process.stdout is not None, "it is a pipe"
        async for line in self.process.stdout:
            told = json.loads(line)
            answer = self._asked.pop(told.pop("id"), None)
            if answer is not None and not answer.done():
                answer.set_result(told)
        for answer in self._asked.values():
            if not answer.done():
                words = self._log.read_text(errors="replace")[-2_000:] if self._log.exists() else ""
                answer.set_exception(ReplicaDied(f"replica {self.options.number} has ended: {words}"))
                answer.exception()  # the exception is retrieved: who no longer waits need not hear of it
        self._asked.clear()


class Group:
    """`async with Group(options, 3)`. `number`, `ports` and `directory` of `options` are replaced."""

    def __init__(self, options: Options, size: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="groupd-bench-raft-"))
        first = free_ports(size)
        ports = tuple(range(first, first + size))
        self.replicas = [
            ReplicaProcess(
                replace(options, number=number, ports=ports, directory=str(self.directory / str(number)))
            )
            for number in range(size)
        ]

    async def __aenter__(self) -> Group:
        try:
            await asyncio.gather(*(replica.start() for replica in self.replicas))
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        started = [replica for replica in self.replicas if hasattr(replica, "process")]
        await asyncio.gather(*(replica.kill() for replica in started), return_exceptions=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    async def statuses(self) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(replica.ask("status") for replica in self.replicas)))

    async def cpu_s(self) -> dict[ReplicaProcess, float]:
        """The CPU time (user and system) of each process so far."""
        statuses = await self.statuses()
        return {replica: status["cpu_s"] for replica, status in zip(self.replicas, statuses, strict=True)}

    async def leader(self) -> ReplicaProcess:
        """Wait for a leader that serves, whose followers hold all of its entries. Returns the leader."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            statuses = await self.statuses()
            leaders = [number for number, status in enumerate(statuses) if status["serving"]]
            are_equal = len({status["applied"] for status in statuses}) == 1
            if len(leaders) == 1 and are_equal and all(status["follows"] for status in statuses):
                return self.replicas[leaders[0]]
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"{self.replicas[0].options.engine}: no leader that all follow: {statuses}")

    async def calm_leader(self) -> ReplicaProcess:
        """Wait for a leader, and until no replica that has just started holds its vote back. Returns the
        leader."""
        leader = await self.leader()
        await asyncio.sleep(1.5 * ELECTION_MIN_S)
        return leader if (await leader.ask("status"))["serving"] else await self.calm_leader()

    def others(self, leader: ReplicaProcess) -> list[ReplicaProcess]:
        return [replica for replica in self.replicas if replica is not leader]
