"""The processes of an Apache Kafka cluster on this machine (KRaft): each is broker and controller, or there
are controllers apart.

The JVM has the flags of Kafka's own start script.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.peers.jars import jars_of, why_missing
from bench.peers.lines import Address
from cluster.ports import free_ports

HOST: Final = "127.0.0.1"
HEAP: Final = "1g"
JVM_FLAGS: Final = (
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
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
FORMATS_MAX: Final = 2
"""How many disks are formatted at once: each is a JVM that starts."""


def missing(kafka_home: Path | None) -> str:
    """Why Kafka cannot run here; empty if it can. Its jars are fetched, once, if no home is given."""
    if shutil.which("java") is None:
        return "java not found"
    return why_missing(kafka_home)


class KafkaNodes:
    """The brokers of a cluster, numbered from 1 on, and after them its controllers, if they are processes of
    their own. Their data is deleted when they are stopped."""

    controllers_apart = 0
    """How many controllers are processes of their own; 0: each broker is a controller, too."""
    formatting: tuple[str, ...] = ()
    """Further arguments of `kafka-storage format`, such as a release whose feature levels are the first."""

    def __init__(
        self,
        brokers: int,
        settings: Mapping[str, str],
        kafka_home: Path | None = None,
        *,
        advertised: Sequence[Address] = (),
        heap: str = HEAP,
    ) -> None:
        """`settings` hold for every broker, instead of Kafka's defaults. `advertised` are the addresses that
        clients are told, if a proxy stands before the brokers."""
        self.brokers = brokers
        self._settings = settings
        self._home = kafka_home
        self._advertised = advertised
        self._heap = heap
        self._directory: Path | None = None
        self._port = 0
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def numbers(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def controller_numbers(self) -> range:
        """The numbers of the processes that are controllers."""
        if not self.controllers_apart:
            return self.numbers
        return range(self.brokers + 1, self.brokers + self.controllers_apart + 1)

    @property
    def all_numbers(self) -> range:
        """The numbers of all processes."""
        return range(1, self.controller_numbers[-1] + 1)

    def address(self, number: int) -> Address:
        """The address at which a broker listens for the others, and for clients that know it."""
        return (HOST, self._port + number - 1)

    def controller(self, number: int) -> Address:
        """The address at which it listens as a controller."""
        return (HOST, self._port + number - 1 + (0 if self.controllers_apart else self.brokers))

    def clients_port(self, number: int) -> int:
        """The port at which it listens for clients that come through a proxy."""
        return self._port + self.brokers + len(self.controller_numbers) + number - 1

    def prepare(self) -> None:
        """Choose ports, write the settings, format the disks. Raises RuntimeError with Kafka's words."""
        self._directory = Path(tempfile.mkdtemp(prefix="groupd-bench-kafka-"))
        self._port = free_ports(2 * self.brokers + len(self.controller_numbers))
        (self._directory / "log4j2.properties").write_text(LOGGING)
        for number in self.all_numbers:
            self._properties(number).write_text(self._lines(number))
        with ThreadPoolExecutor(FORMATS_MAX) as threads:
            list(threads.map(self._format, self.all_numbers))

    def start(self) -> None:
        """Start all processes, and wait until they listen. Raises RuntimeError with their words."""
        for number in self.all_numbers:
            self.launch(number)
        for number in self.all_numbers:
            self.wait_until_it_listens(number)

    def launch(self, number: int) -> None:
        """Start a process that does not run. Returns at once."""
        flags = (f"-Xms{self._heap}", f"-Xmx{self._heap}", *JVM_FLAGS)
        command = self._java("kafka.Kafka", str(self._properties(number)), flags=flags)
        with self._log(number).open("ab") as log:
            self._running[number] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def wait_until_it_listens(self, number: int) -> None:
        """Wait until a process listens. Raises RuntimeError with its words."""
        deadline = time.monotonic() + START_TIMEOUT_S
        address = self.address(number) if number in self.numbers else self.controller(number)
        while not _listens(address):
            if not self.runs(number) or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not start:\n{self.words(number)[-WORDS_MAX:]}")
            time.sleep(POLL_S)

    def runs(self, number: int) -> bool:
        """Whether a broker's process runs; a frozen one does."""
        return self._running[number].poll() is None

    def process(self, number: int) -> subprocess.Popen[bytes]:
        """The broker's process, or its last one."""
        return self._running[number]

    def words(self, number: int) -> str:
        """What a broker has logged."""
        return self._log(number).read_text(errors="replace")

    def pids(self) -> list[int]:
        return [process.pid for process in self._running.values()]

    def stop(self) -> None:
        """Stop all processes. May be called at any time, more than once."""
        brokers = [process for number, process in self._running.items() if number in self.numbers]
        apart = [process for number, process in self._running.items() if number not in self.numbers]
        for processes in (brokers, apart):  # a broker's end waits for the controllers
            for process in processes:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
            for process in processes:
                _end(process)
        self._running = {}
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def software(self) -> str:
        """The name and version of the software."""
        libs = jars_of(self._home)
        assert libs is not None, "not missing"
        jar = next(libs.glob("kafka_2.*.jar")).stem
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)  # noqa: S607
        return (
            f"Apache Kafka {jar.rpartition('-')[2]}, {self.brokers} broker(s), {java.stderr.splitlines()[0]}"
        )

    def _properties(self, number: int) -> Path:
        assert self._directory is not None, "prepared"
        return self._directory / f"server{number}.properties"

    def _log(self, number: int) -> Path:
        return self._properties(number).with_suffix(".log")

    def _lines(self, number: int) -> str:
        voters = (f"{n}@{':'.join(map(str, self.controller(n)))}" for n in self.controller_numbers)
        listeners: dict[str, Address] = {}
        advertised: dict[str, Address] = {}
        roles = []
        if number in self.numbers:
            roles.append("broker")
            listeners["PLAINTEXT"] = advertised["PLAINTEXT"] = self.address(number)
            if self._advertised:
                listeners["CLIENTS"] = (HOST, self.clients_port(number))
                advertised["CLIENTS"] = self._advertised[number - 1]
        if number in self.controller_numbers:
            roles.append("controller")
            listeners["CONTROLLER"] = self.controller(number)
        protocols = dict.fromkeys(("CONTROLLER", "PLAINTEXT", *listeners), "PLAINTEXT")
        copies, least = str(min(self.brokers, 3)), "2" if self.brokers >= 3 else "1"
        settings = {
            **self._settings,
            "process.roles": ",".join(roles),
            "node.id": str(number),
            "controller.quorum.voters": ",".join(voters),
            "listeners": _urls(listeners),
            **({"advertised.listeners": _urls(advertised)} if advertised else {}),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{name}:{how}" for name, how in protocols.items()),
            "log.dirs": str(self._properties(number).with_suffix(".data")),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": least,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": least,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _java(self, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        assert self._directory is not None, "prepared"
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        return ["java", *flags, logging, "-cp", f"{jars_of(self._home)}/*", *arguments]

    def _format(self, number: int) -> None:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self._properties(number)))
        command = self._java("kafka.tools.StorageTool", *arguments, *self.formatting)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Kafka's storage cannot be formatted:\n{done.stdout}\n{done.stderr}")


def _urls(listeners: Mapping[str, Address]) -> str:
    return ",".join(f"{name}://{host}:{port}" for name, (host, port) in listeners.items())


def _listens(address: Address) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process ends that was asked to, and kill it if it does not."""
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
