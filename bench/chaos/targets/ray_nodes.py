"""A Ray cluster of several nodes on this machine, so that a whole node can be frozen, lost and brought back.

The nodes are started by Ray's own command, each with a loopback address of its own. One that is started again
has the address it had before, as a machine that comes back: the tier's actors wait for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import psutil

from bench.chaos.targets.target import until
from cluster.ports import free_ports

FIRST_HOST: Final = 2
"""The first node's address ends so, 127.0.0.2: in place of 127.0.0.1 Ray takes the machine's public
address."""
START_TIMEOUT_S: Final = 60.0
END_TIMEOUT_S: Final = 20.0
OBJECT_STORE_BYTES: Final = 80 * 1024 * 1024
ENVIRONMENT: Final = {
    # As `actors.ray_host` sets them for a Ray of the tier's own.
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
    "RAY_timeout_ms_task_wait_for_death_info": "100",
    "RAY_kill_worker_timeout_milliseconds": "500",
    # Nodes that fail are noticed within seconds instead of a minute.
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}


NO_MORE: Final[Mapping[str, str]] = MappingProxyType({})


class RayNodes:
    """The nodes of a Ray cluster: a head, which has Ray's GCS, and others; a context manager."""

    def __init__(self, nodes: int = 3, environment: Mapping[str, str] = NO_MORE) -> None:
        """Take so many nodes. `environment` is what their Ray is told besides ENVIRONMENT."""
        self._environment = {**ENVIRONMENT, **environment}
        self.directory = Path(tempfile.mkdtemp(prefix="groupd-ray-", dir="/tmp"))
        self.hosts = [f"127.0.0.{FIRST_HOST + n}" for n in range(nodes)]
        """The tier's nodes, in order. Linux has all of 127/8 by itself."""
        self.address = f"{self.hosts[0]}:{free_ports(1)}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._directory: psutil.Process | None = None
        self._how: tuple[list[str], dict[str, str]] = ([], {})
        """The directory's command line and environment."""
        self._next_directory: subprocess.Popen[bytes] | None = None

    @property
    def others(self) -> list[str]:
        """The nodes that may be hit: with the head the directory of all actors would be gone."""
        return self.hosts[1:]

    def __enter__(self) -> RayNodes:
        try:
            for host in self.hosts:
                self.start(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for host in reversed(list(self._running)):
            self.kill(host)
        if self._next_directory is not None:
            self._next_directory.kill()
            self._next_directory.wait(END_TIMEOUT_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, host: str) -> None:
        """Start a node, and wait until it is up. Raises RuntimeError with Ray's own words."""
        assert host not in self._running, "it runs"
        log = self.directory / f"{host}.log"
        with log.open("wb") as output:
            self._running[host] = subprocess.Popen(
                self._command(host),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while "This command will now block" not in (said := log.read_text(errors="replace")):
            if self._running[host].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a Ray node did not start:\n{said}")
            time.sleep(0.1)

    def _command(self, host: str) -> list[str]:
        place = ["--address", self.address]
        if host == self.hosts[0]:
            port = self.address.rpartition(":")[2]
            place = ["--head", "--port", port, "--temp-dir", str(self.directory)]
            place += ["--include-dashboard", "false"]
        return [
            str(Path(sys.executable).with_name("ray")),
            "start",
            *place,
            *("--node-ip-address", host, "--num-cpus", str(os.cpu_count() or 1), "--num-gpus", "0"),
            *("--object-store-memory", str(OBJECT_STORE_BYTES)),
            # Several nodes share this machine's ports.
            *("--min-worker-port", "0", "--max-worker-port", "0", "--dashboard-agent-listen-port", "0"),
            *("--disable-usage-stats", "--block"),
        ]

    def head_processes(self) -> list[psutil.Process]:
        return self.processes(self.hosts[0])

    def kill_directory(self) -> None:
        """Kill Ray's directory of actors, the GCS, and nothing else: the process that keeps it is stopped,
        because it would take the whole node down."""
        keeper, *processes = self.head_processes()
        [self._directory] = [each for each in processes if each.name() == "gcs_server"]
        self._how = (self._directory.cmdline(), self._directory.environ())
        keeper.suspend()
        self._directory.kill()
        until(self.has_no_directory, "Ray's directory is gone", END_TIMEOUT_S)

    def start_directory(self) -> None:
        """Start Ray's directory of actors again, as it was started."""
        command, environment = self._how
        self._next_directory = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def has_no_directory(self) -> bool:
        """Return whether the directory that was last started is gone."""
        if self._next_directory is not None:
            return self._next_directory.poll() is not None
        return self._directory is not None and self._directory.status() == psutil.STATUS_ZOMBIE

    def processes(self, host: str) -> list[psutil.Process]:
        """The processes of a node: its raylet and all its children, actors included."""
        try:
            root = psutil.Process(self._running[host].pid)
            return [root, *root.children(recursive=True)]
        except (KeyError, psutil.NoSuchProcess):
            return []

    def kill(self, host: str) -> None:
        """Kill all processes of a node at once, as when a machine loses power."""
        processes = self.processes(host)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self._running.pop(host).wait(END_TIMEOUT_S)
        psutil.wait_procs(processes, END_TIMEOUT_S)
