"""A throw-away tier, started and stopped through the command line as a user would: for bench and tests."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil


class Tier:
    """Use as a context manager. `flags` are further flags of `groupd up`."""

    def __init__(self, *flags: str, port: int = 19_092) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="groupd-bench-"))
        self.port = port
        self._flags = flags
        self.ready_s = 0.0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Tier:
        started = time.monotonic()
        self.run("up", "--detach", "--port", str(self.port), *self._flags)
        self.ready_s = time.monotonic() - started
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self.run("down")
        finally:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def status(self) -> dict[str, Any]:
        """`groupd status --json`."""
        status: dict[str, Any] = json.loads(self.run("status", "--json"))
        return status

    def partitions(self) -> list[dict[str, Any]]:
        """The status of every replica of every offsets partition that answers."""
        return [status for status in self.status()["partitions"] if status.get("pid")]

    def pids(self) -> list[int]:
        """Processes of all actors."""
        status = self.status()
        rows = [*status["partitions"], *status["brokers"], *status["controllers"]]
        return [row["pid"] for row in rows if row.get("pid")]

    def processes(self) -> list[psutil.Process]:
        """The driver with all its children: actors and Ray."""
        pid = json.loads((self.data_dir / "tier.json").read_text())["pid"]
        driver = psutil.Process(pid)
        return [driver, *driver.children(recursive=True)]

    def run(self, *arguments: str) -> str:
        """Run a `groupd` command on this tier; returns what it prints."""
        command = [sys.executable, "-m", "cluster.cli", *arguments, "--data-dir", str(self.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout


FIRST_PORT = 20_000
LAST_PORT = 29_000
"""Below Linux's ephemeral ports, above those that Ray's workers take by default."""


def free_ports(count: int) -> int:
    """The first of `count` neighbouring ports of 127.0.0.1 that nobody listens on now."""
    start = FIRST_PORT + time.monotonic_ns() // 1_000 % 5_000
    for first in range(start, LAST_PORT, count):
        if all(_is_free(first + n) for n in range(count)):
            return first
    raise RuntimeError(f"no {count} neighbouring ports are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def cpu_seconds(pids: list[int]) -> float:
    """User + system time of these processes so far."""
    total = 0.0
    for pid in pids:
        times = psutil.Process(pid).cpu_times()
        total += times.user + times.system
    return total


def pss_mib(processes: list[psutil.Process]) -> float:
    """Proportional set size, summed: shared pages count once."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20
