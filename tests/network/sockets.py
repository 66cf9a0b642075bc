"""What the tests of connections use: real sockets, frames, and services that echo or park requests."""

from __future__ import annotations

import asyncio
import socket
import struct

from actors.ground.identity import ClientIdentity, identity_of
from actors.network.connection import LATER, Connection
from actors.network.frames import with_length
from actors.network.quota import ConnectionLimits
from actors.network.table import ConnectionTable

ECHO, PARK, RAISE, SILENT, LAST = 12, 11, 99, 0, 98
"""The API keys, named after what the services below do with them."""


def request(correlation_id: int, body: bytes = b"", key: int = ECHO) -> bytes:
    return struct.pack(">hhi", key, 0, correlation_id) + body


def wire(*frames: bytes) -> bytes:
    return b"".join(map(with_length, frames))


class Echo:
    """A service that answers a frame with itself, and parks frames of the key PARK."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.parked: list[tuple[Connection, bytes]] = []
        self.closed: list[Connection] = []
        self.more = 0

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        self.served.append(frame)
        (key,) = struct.unpack_from(">h", frame)
        if key == PARK:
            self.parked.append((connection, frame))
            return LATER
        if key == RAISE:
            raise RuntimeError("a bug")
        if key == LAST:
            connection.close("it said goodbye")
        return b"" if key == SILENT else with_length(frame)

    def on_more(self, connection: Connection) -> None:
        self.more += 1

    def on_closed(self, connection: Connection) -> None:
        self.closed.append(connection)


class Client:
    """A client's end of a TCP connection, in the same loop as the server's."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def receive(self, count: int) -> bytes:
        """Receive exactly `count` bytes, or what came before the end of the stream."""
        received = bytearray()
        while len(received) < count:
            chunk = await asyncio.get_running_loop().sock_recv(self.sock, count - len(received))
            if not chunk:
                break
            received += chunk
        return bytes(received)

    async def ended(self) -> bool:
        """Wait for the end of the stream (or a reset); False if a byte comes first."""
        try:
            return await asyncio.get_running_loop().sock_recv(self.sock, 1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.sock.close()


async def connect(address: tuple[str, int]) -> Client:
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, address)
    return Client(sock)


def pair() -> tuple[Client, socket.socket, ClientIdentity]:
    """Make a client and the server's non-blocking end of one loopback TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, address = server.accept()
    accepted.setblocking(False)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Client(client), accepted, identity_of(address)


def new_table(**limits: int) -> ConnectionTable:
    return ConnectionTable(asyncio.get_running_loop(), ConnectionLimits(**limits))


def served(service: Echo, table: ConnectionTable, buffered: bytes = b"") -> tuple[Client, Connection]:
    client, accepted, identity = pair()
    return client, table.adopt(accepted, buffered, identity, service)
