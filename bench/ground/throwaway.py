"""A throw-away tier, started and stopped through the command line as a user would: for bench and tests."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.ground.interrupts import deaf
from cluster import child_process
from cluster.ports import free_ports

COMMAND_TIMEOUT_S = 300
"""How long a command may take: a tier comes up in ten seconds, but on a busy machine in minutes."""
INTERRUPT_TIMEOUT_S = 60


class Tier:
    """A throw-away tier; a context manager. `flags` are further flags of `groupd up`."""

    def __init__(self, *flags: str, port: int | None = None, nodes: int = 3) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="groupd-bench-"))
        self.port = free_ports(nodes) if port is None else port
        self._flags = flags
        self.ready_s = 0.0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Tier:
        started = time.monotonic()
        try:
            self._up()
        except BaseException:
            with contextlib.suppress(RuntimeError):  # there is no tier that could be brought down
                self.__exit__()
            raise
        self.ready_s = time.monotonic() - started
        return self

    def __exit__(self, *exc: object) -> None:
        with deaf():
            try:
                self.run("down", "--force")
            finally:
                shutil.rmtree(self.data_dir, ignore_errors=True)

    def restart(self) -> None:
        """Stop the whole tier and start it again on its data directory."""
        self.run("down", "--force")
        self._up()

    def _up(self) -> None:
        self.run("up", "--detach", "--port", str(self.port), *self._flags)

    def status(self) -> dict[str, Any]:
        """What `groupd status --json` prints; the tier need not be whole."""
        status: dict[str, Any] = json.loads(self.run("status", "--json", fine=(0, 1)))
        return status

    def replicas(self) -> list[dict[str, Any]]:
        """The replicas of every offsets partition that answer, each with its "partition"."""
        return [
            {"partition": row["partition"], **replica}
            for row in self.status()["partitions"]
            for replica in row["replicas"]
            if replica["pid"]
        ]

    def controllers(self) -> list[dict[str, Any]]:
        """The controller's replicas that answer."""
        return [replica for replica in self.status()["controller"]["replicas"] if replica["pid"]]

    def brokers(self) -> list[dict[str, Any]]:
        """The brokers that answer."""
        return [node for node in self.status()["nodes"] if node["pid"]]

    def pids(self) -> list[int]:
        """The process ids of all actors."""
        return [row["pid"] for row in (*self.replicas(), *self.controllers(), *self.brokers())]

    def processes(self) -> list[psutil.Process]:
        """The processes of the driver and all its children, which are actors and Ray."""
        pid = json.loads((self.data_dir / "tier.json").read_text())["running"]["pid"]
        return family(pid)

    def run(self, *arguments: str, fine: tuple[int, ...] = (0,)) -> str:
        """Run a `groupd` command on this tier. Returns what it prints. Raises RuntimeError unless its exit
        code is among `fine`."""
        command = child_process.python("cluster.cli", *arguments, "--data-dir", str(self.data_dir))
        running = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=child_process.environment(),
            start_new_session=True,  # a Ctrl-C is ours to pass on
        )
        try:
            out, words = running.communicate(timeout=COMMAND_TIMEOUT_S)
        except BaseException:
            _interrupt(running)
            raise
        if running.returncode not in fine:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{out}\n{words}")
        return out


def family(pid: int) -> list[psutil.Process]:
    """The processes of a tier's driver and all its children, which are actors and Ray. Raises
    psutil.Error."""
    driver = psutil.Process(pid)
    return [driver, *driver.children(recursive=True)]


def _interrupt(running: subprocess.Popen[str]) -> None:
    """End `groupd up` as Ctrl-C does: it then stops what it has started so far."""
    with deaf():
        running.send_signal(signal.SIGINT)
        try:
            running.communicate(timeout=INTERRUPT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()


def pss_mib(processes: list[psutil.Process]) -> float:
    """The memory of processes in MiB, by proportional set size: shared pages count once."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20
