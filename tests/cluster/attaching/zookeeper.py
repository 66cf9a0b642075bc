"""An Apache Kafka whose metadata is in ZooKeeper, as it could be up to 3.9."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.ports import free_ports
from tests.polling import until

HOST = "127.0.0.1"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0


@contextmanager
def in_zookeeper(libs: Path, directory: Path) -> Iterator[int]:
    """Run ZooKeeper and one broker; yield the broker's port."""
    zookeeper = free_ports(2)
    broker = zookeeper + 1
    settings = directory / "server.properties"
    settings.write_text(
        f"broker.id=1\nzookeeper.connect={HOST}:{zookeeper}\nlisteners=PLAINTEXT://{HOST}:{broker}\n"
        f"log.dirs={directory / 'log'}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n"
    )
    main = ("org.apache.zookeeper.server.ZooKeeperServerMain", str(zookeeper), str(directory / "zookeeper"))
    running: list[subprocess.Popen[bytes]] = []
    try:
        for port, command in ((zookeeper, main), (broker, ("kafka.Kafka", str(settings)))):
            java = ("java", "-Xmx256m", "-Dzookeeper.admin.enableServer=false", "-cp", f"{libs}/*", *command)
            with (directory / f"{port}.log").open("wb") as log:
                running.append(subprocess.Popen(java, stdout=log, stderr=log, start_new_session=True))
            _wait(port, running[-1], directory / f"{port}.log")
        yield broker
    finally:
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def listens() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-4_000:]
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) == 0

    until(listens, f"port {port} is open", START_TIMEOUT_S)
