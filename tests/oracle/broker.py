"""A real Kafka broker on this machine, from Maven Central's jars: what our answers are held against."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.clients.programs import JVM_FLAGS
from cluster.ports import free_ports
from tests.kafka import jvm
from tests.oracle.connection import pause

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
LOGGING = """rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c %m%n
"""
CLUSTER_ID = "groupd-oracle-kafka-00"


class KafkaBroker:
    """One node in KRaft mode, broker and controller in one. Use as a context manager; its data lives in a
    temporary directory that goes with it. RuntimeError: it did not start, with its last words."""

    def __init__(self, settings: Mapping[str, str], port: int | None = None) -> None:
        self.port = free_ports(2) if port is None else port
        self._settings = settings
        self._directory = Path(tempfile.mkdtemp(prefix="groupd-kafka-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The directory of its logs."""
        return self._directory / "data"

    @property
    def log(self) -> Path:
        return self._directory / "broker.log"

    def __enter__(self) -> KafkaBroker:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process and delete its data."""
        self._end()
        shutil.rmtree(self._directory, ignore_errors=True)

    def restart(self) -> None:
        """End the process, and begin another one with its data."""
        self._end()
        self._begin()

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _start(self) -> None:
        logging, properties = self._directory / "log4j2.properties", self._directory / "server.properties"
        logging.write_text(LOGGING)
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._all_settings().items()))
        storage = [
            *self._java(),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER_ID,
            "-c",
            str(properties),
        ]
        done = subprocess.run(storage, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Kafka's storage cannot be formatted:\n{done.stdout}\n{done.stderr}")
        self._begin()

    def _java(self) -> list[str]:
        libs, logging = jvm.build() / "libs", self._directory / "log4j2.properties"
        return ["java", *JVM_FLAGS, "-Xmx512m", f"-Dlog4j2.configurationFile={logging}", "-cp", f"{libs}/*"]

    def _begin(self) -> None:
        command = [*self._java(), "kafka.Kafka", str(self._directory / "server.properties")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._wait_until_it_listens()

    def _all_settings(self) -> dict[str, str]:
        own = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.port + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
        }
        # A profile with listeners of its own writes {port} and {controller_port} for where they are.
        given = {
            name: value.replace("{port}", str(self.port)).replace("{controller_port}", str(self.port + 1))
            for name, value in self._settings.items()
        }
        return {**own, **given}

    def _wait_until_it_listens(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka did not start:\n{self._words()[-4_000:]}")
            pause(0.1)

    def _words(self) -> str:
        return self.log.read_text(errors="replace")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
