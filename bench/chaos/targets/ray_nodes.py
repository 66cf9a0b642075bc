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
from pathlib import Path
from typing import Final

import psutil

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


class RayNodes:
    """The nodes of a Ray cluster: a head, which has Ray's GCS, and others; a context manager."""

    def __init__(self, nodes: int = 3) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="groupd-ray-", dir="/tmp"))
        self.hosts = [f"127.0.0.{FIRST_HOST + n}" for n in range(nodes)]
        """The tier's nodes, in order. Linux has all of 127/8 by itself."""
        self.address = f"{self.hosts[0]}:{free_ports(1)}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

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
                env={**os.environ, **ENVIRONMENT},
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
