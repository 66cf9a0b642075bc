"""A broker and a replica, one process each: `python -m tests.network.processes <role> <loop> <dir>`."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Mapping
from functools import partial

import uvloop

from actors.ground.identity import ClientIdentity
from actors.network.channel import Answer
from actors.network.connection import Connection
from actors.network.early import Decision, EarlyConnection, HandOver
from actors.network.file_limit import raise_file_limit
from actors.network.frames import with_length
from actors.network.hub import Hub, Leading
from actors.network.link import Link
from actors.network.listener import Listener
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.network.table import ConnectionTable

SECRET = b"between two processes"
API_VERSIONS, COUNT, PROCESS, HEARTBEAT = 18, 50, 51, 12
"""The API keys: the broker answers API_VERSIONS, and COUNT with the number of its connections. The replica
serves all others, PROCESS with its process id."""


class BrokerProcess:
    def __init__(self, run_dir: str) -> None:
        limits = ConnectionLimits()
        self.quota = ConnectionQuota(limits)
        self.table = ConnectionTable(asyncio.get_running_loop(), limits, self.quota.gone)
        self.hub = Hub(f"{run_dir}/hub.sock", SECRET, self, self.quota)
        self.listener = Listener(("127.0.0.1", 0), self.decide, self.table, self.quota)

    def decide(self, early: EarlyConnection, frame: bytes) -> Decision:
        (key,) = struct.unpack_from(">h", frame)
        if key == API_VERSIONS:
            return with_length(frame)
        if key == COUNT:
            return with_length(frame[:8] + struct.pack(">i", self.quota.total))
        return HandOver(partial(self.hub.hand_over, 0), self)

    def on_leading(self, partition: int, leading: Leading | None) -> None: ...

    def on_link(self, partition: int, connected: bool) -> None: ...

    def on_relay(self, partition: int, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        answer(None)

    def on_hand_back(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        sock.close()

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        connection.close("no replica is connected")
        return b""

    def on_more(self, connection: Connection) -> None: ...

    def on_closed(self, connection: Connection) -> None: ...


class ReplicaProcess:
    def __init__(self, run_dir: str) -> None:
        self.link = Link(f"{run_dir}/hub.sock", SECRET, 0, self)
        self.table = ConnectionTable(asyncio.get_running_loop(), ConnectionLimits(), self.link.gone)

    def on_connected(self) -> None:
        print("connected", flush=True)

    def on_disconnected(self) -> None: ...

    def on_handover(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        self.table.adopt(sock, buffered, identity, self)

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        answer(None)

    def on_push(self, kind: str, payload: bytes) -> None: ...

    def addresses(self) -> Mapping[str, int]:
        return self.table.addresses()

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        if struct.unpack_from(">h", frame)[0] == PROCESS:
            return with_length(frame[:8] + struct.pack(">i", os.getpid()))
        return with_length(frame)

    def on_more(self, connection: Connection) -> None: ...

    def on_closed(self, connection: Connection) -> None: ...


async def main(role: str, run_dir: str) -> None:
    raise_file_limit()
    if role == "broker":
        broker = BrokerProcess(run_dir)
        broker.hub.start()
        print(await broker.listener.start(), flush=True)
    else:
        ReplicaProcess(run_dir).link.start()
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    loop_factory = uvloop.new_event_loop if sys.argv[2] == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main(sys.argv[1], sys.argv[3]))
