"""Connections are handed from one process to another by descriptor: they outlive the broker and end with the
leader.

A connection outlives a crash of the broker, and a leader that ends is an end of file at the client.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.network.file_limit import raise_file_limit
from actors.network.frames import with_length
from tests.network.processes import API_VERSIONS, COUNT, HEARTBEAT, PROCESS
from tests.network.sockets import request, wire

CLIENTS = 300


class Processes:
    """Starts brokers and replicas; whatever still lives at the end is killed."""

    def __init__(self, loop: str, run_dir: Path) -> None:
        self._loop, self._run_dir = loop, run_dir
        self._all: list[subprocess.Popen[str]] = []

    def start(self, role: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.network.processes", role, self._loop, str(self._run_dir)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._all.append(process)
        return process

    def line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def end(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(params=["uvloop", "asyncio"])
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Processes]:
    them = Processes(request.param, tmp_path)
    yield them
    them.end()


def exactly(sock: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = sock.recv(count - len(received))
        assert chunk, f"the stream ended after {received!r}"
        received += chunk
    return received


def asked(sock: socket.socket, frame: bytes) -> bytes:
    sock.sendall(with_length(frame))
    (length,) = struct.unpack(">i", exactly(sock, 4))
    return exactly(sock, length)


def test_clients_outlive_the_broker_and_end_with_the_replica(processes: Processes) -> None:
    """There are 300 members: they are handed over with the requests that they pipelined, served after the
    broker's SIGKILL, counted by the next broker, and told at once when their replica is killed."""
    raise_file_limit()
    broker, replica = processes.start("broker"), processes.start("replica")
    port = int(processes.line(broker))
    assert processes.line(replica) == "connected"
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(CLIENTS)
        ]
        for number, client in enumerate(clients):
            # The last one is cut in the midst: its rest comes after the hand-over, and must follow the
            # bytes that the broker had read.
            client.sendall(
                wire(request(1, key=API_VERSIONS), request(2, key=HEARTBEAT), request(number, key=HEARTBEAT))[
                    : -1 - number % 9
                ]
            )
        for number, client in enumerate(clients):
            whole = wire(request(number, key=HEARTBEAT))
            client.sendall(whole[len(whole) - 1 - number % 9 :])
            assert exactly(client, 36) == wire(
                request(1, key=API_VERSIONS), request(2, key=HEARTBEAT), request(number, key=HEARTBEAT)
            )
        assert struct.unpack_from(">i", asked(clients[0], request(3, key=PROCESS)), 8) == (replica.pid,)

        broker.kill()
        broker.wait()
        for number, client in enumerate(clients):
            assert asked(client, request(number, key=HEARTBEAT)) == request(number, key=HEARTBEAT)

        newcomer = processes.start("broker")
        port = int(processes.line(newcomer))
        assert processes.line(replica) == "connected"
        with socket.create_connection(("127.0.0.1", port), 10) as counting:
            deadline_s = time.monotonic() + 5
            total = 0
            while total != CLIENTS + 1:
                assert time.monotonic() < deadline_s, total
                (total,) = struct.unpack_from(">i", asked(counting, request(4, key=COUNT)), 8)

        replica.kill()
        since_s = time.monotonic()
        for client in clients:
            assert client.recv(1) == b""
        assert time.monotonic() - since_s < 2.0
