"""Apache Kafka in KRaft mode as a peer: one broker, or three with three copies of the offsets topic.

The JVM has the flags of Kafka's own start script.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from bench.peers.jars import jars_of, why_missing
from bench.peers.lines import Address, coordinators
from bench.peers.peer import POLL_S, READY_TIMEOUT_S, Peer, end
from bench.peers.plan import Options, Refused
from cluster.ports import free_ports

JVM_FLAGS: Final = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
LOGGING: Final = """rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c %m%n
"""
CLUSTER_ID: Final = "groupd-bench-kafka-000"
WORDS_MAX: Final = 4_000
HISTOGRAM_TOTAL: Final = re.compile(r"^Total\s+\d+\s+(\d+)\s*$", re.MULTILINE)


class _Kafka(Peer):
    brokers: ClassVar[int]
    warm_up_s = 20.0

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._port = 0
        self._directory: Path | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def missing(self) -> str:
        if shutil.which("java") is None:
            return "java not found"
        return why_missing(self.options.kafka_home)

    def start(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="groupd-bench-kafka-"))
        self._port = free_ports(2 * self.brokers)
        (self._directory / "log4j2.properties").write_text(LOGGING)
        for number in range(1, self.brokers + 1):
            self._properties(number).write_text(self._settings(number))
        self._format()
        self.launched_at = time.monotonic()
        for number in range(1, self.brokers + 1):
            self._processes.append(self._launch(number))
        for number in range(1, self.brokers + 1):
            self._wait_until_it_listens(number)

    def _end(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            end(process)
        self._processes = []
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @property
    def bootstrap(self) -> list[Address]:
        return [("127.0.0.1", self._port + number) for number in range(self.brokers)]

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def software(self) -> str:
        libs = jars_of(self.options.kafka_home)
        assert libs is not None, "not missing"
        jar = next(libs.glob("kafka_2.*.jar")).stem
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)  # noqa: S607
        return (
            f"Apache Kafka {jar.rpartition('-')[2]}, {self.brokers} broker(s), {java.stderr.splitlines()[0]}"
        )

    def live_bytes(self) -> int:
        """Live objects of the heaps: the resident size of a JVM says little. Collects garbage first."""
        total = 0
        for pid in self.pids():
            command = ["jcmd", str(pid), "GC.class_histogram"]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=READY_TIMEOUT_S
            )
            found = HISTOGRAM_TOTAL.search(done.stdout)
            assert found is not None, done.stdout[-WORDS_MAX:]
            total += int(found[1])
        return total

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        if self.brokers == 1:
            raise Refused("nobody takes over from a single broker")
        found = asyncio.run(coordinators(self.bootstrap[0], groups))
        ((address, _),) = Counter(found.values()).most_common(1)
        process = self._processes[self.bootstrap.index(address)]
        process.kill()
        killed_at = time.monotonic()
        process.wait()
        return killed_at, [group for group, at in found.items() if at == address]

    def mend(self) -> None:
        for place, process in enumerate(self._processes):
            if process.poll() is not None:
                self._processes[place] = self._launch(place + 1)
                self._wait_until_it_listens(place + 1)
        self.wait_until_ready()

    def _properties(self, number: int) -> Path:
        assert self._directory is not None, "started"
        return self._directory / f"server{number}.properties"

    def _settings(self, number: int) -> str:
        voters = (f"{n}@127.0.0.1:{self._port + self.brokers + n - 1}" for n in range(1, self.brokers + 1))
        host, port = self.bootstrap[number - 1]
        controller_port = port + self.brokers
        copies, least = str(self.brokers), "2" if self.brokers == 3 else "1"
        settings = {
            **self.settings,
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self._properties(number).with_suffix(".data")),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": least,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": least,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _java(self, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        assert self._directory is not None, "started"
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        return ["java", *flags, logging, "-cp", f"{jars_of(self.options.kafka_home)}/*", *arguments]

    def _format(self) -> None:
        for number in range(1, self.brokers + 1):
            arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties(number)))
            command = self._java("kafka.tools.StorageTool", *arguments)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"Kafka's storage cannot be formatted:\n{done.stdout}\n{done.stderr}")

    def _log(self, number: int) -> Path:
        return self._properties(number).with_suffix(".log")

    def _launch(self, number: int) -> subprocess.Popen[bytes]:
        command = self._java("kafka.Kafka", str(self._properties(number)), flags=JVM_FLAGS)
        with self._log(number).open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _wait_until_it_listens(self, number: int) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not _listens(self.bootstrap[number - 1]):
            if self._processes[number - 1].poll() is not None or time.monotonic() > deadline:
                words = self._log(number).read_text(errors="replace")[-WORDS_MAX:]
                raise RuntimeError(f"Kafka did not start:\n{words}")
            time.sleep(POLL_S)


def _listens(address: Address) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


class KafkaOne(_Kafka):
    """One broker."""

    name = "kafka-1"
    brokers = 1


class KafkaThree(_Kafka):
    """Three brokers, three copies of each group's state."""

    name = "kafka-3"
    brokers = 3
    copies = 3
