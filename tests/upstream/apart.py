"""A real Kafka whose controller and broker are processes of their own, and whose quorum can change
(KIP-853)."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.clients.programs import JVM_FLAGS
from cluster.ports import free_ports
from tests.kafka import jvm
from tests.oracle.broker import LOGGING, START_TIMEOUT_S, STOP_TIMEOUT_S
from tests.polling import until
from tests.upstream.kafka import SMALL

CLUSTER_ID: Final = "groupd-apart-kafka-000"
CONTROLLER_ID: Final = 100
BROKER_ID: Final = 1


class KafkaApart:
    """Use as a context manager; its data lives in a temporary directory that goes with it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` hold for both processes."""
        port = free_ports(3)
        self.controller = ("127.0.0.1", port)
        self.broker = ("127.0.0.1", port + 1)
        self._internal = ("127.0.0.1", port + 2)
        self._settings = settings
        self._directory = Path(tempfile.mkdtemp(prefix="groupd-kafka-apart-"))
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> KafkaApart:
        try:
            (self._directory / "log4j2.properties").write_text(LOGGING)
            urls = {"CONTROLLER": _url(self.controller)}
            self._start("controller", CONTROLLER_ID, urls, "--standalone")
            urls = {"PLAINTEXT": _url(self.broker), "INTERNAL": _url(self._internal)}
            self._start("broker", BROKER_ID, urls)
            until(lambda: _listens(self.broker), "the broker listens", START_TIMEOUT_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, role: str, node_id: int, urls: Mapping[str, str], *format_flags: str) -> None:
        listeners = ",".join(f"{name}://{url}" for name, url in urls.items())
        settings = {
            **SMALL,
            **self._settings,
            "process.roles": role,
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": _url(self.controller),
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "log.dirs": str(self._directory / role),
        }
        if role == "broker":
            settings |= {"advertised.listeners": listeners, "inter.broker.listener.name": "INTERNAL"}
        properties = self._directory / f"{role}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        logging = f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}"
        java = ["java", *JVM_FLAGS, "-Xmx384m", logging, "-cp", f"{jvm.build() / 'libs'}/*"]
        storage = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run([*storage, *format_flags], capture_output=True, check=True)
        with (self._directory / f"{role}.log").open("wb") as log:
            command = [*java, "kafka.Kafka", str(properties)]
            self._running.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))


def _url(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _listens(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0
