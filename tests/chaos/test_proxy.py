"""The proxy before a tier's nodes: what passes, what waits, what ends."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from bench.chaos.targets.proxy import FAIR, Proxy, Way, Weather
from bench.chaos.targets.site import until
from cluster.ports import free_ports

HOST = "127.0.0.1"
DEADLINE_S = 10.0
SILENCE_S = 0.2


class Echo:
    """A node that sends back what it gets, and remembers it."""

    def __init__(self, port: int) -> None:
        self.got = bytearray()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((HOST, port))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65_536):
                self.got += data
                connection.sendall(data)


@pytest.fixture
def ports() -> tuple[int, int]:
    """The ports of the proxy and of the node behind it."""
    first = free_ports(2)
    return first, first + 1


@pytest.fixture
def node(ports: tuple[int, int]) -> Iterator[Echo]:
    echo = Echo(ports[1])
    yield echo
    echo.close()


@pytest.fixture
def proxy(ports: tuple[int, int]) -> Iterator[Proxy]:
    with Proxy([Way(HOST, *ports)]) as running:
        yield running


@pytest.fixture
def client(ports: tuple[int, int], node: Echo, proxy: Proxy) -> Iterator[socket.socket]:
    """A client whose connection through the proxy has been answered once."""
    with socket.create_connection((HOST, ports[0]), DEADLINE_S) as connection:
        connection.sendall(b"hello")
        assert received(connection, 5) == b"hello"
        yield connection


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := connection.recv(65_536)):
        data += more
    return data


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(DEADLINE_S)
    return False


def test_everything_passes_in_order(client: socket.socket) -> None:
    content = b"".join(number.to_bytes(4, "big") for number in range(500_000))
    sender = threading.Thread(target=client.sendall, args=(content,))
    sender.start()
    assert received(client, len(content)) == content
    sender.join(DEADLINE_S)


def test_a_reset_is_one_at_both_ends(client: socket.socket, proxy: Proxy) -> None:
    assert proxy.reset() == 1
    with pytest.raises(ConnectionResetError):
        received(client, 1)
    until(lambda: proxy.connections() == 0, "the connection is forgotten", DEADLINE_S)


def test_what_a_black_hole_held_back_arrives_when_it_ends(
    client: socket.socket, proxy: Proxy, node: Echo, ports: tuple[int, int]
) -> None:
    proxy.set(Weather(requests_pass=False, answers_pass=False))
    client.sendall(b"late")
    with socket.create_connection((HOST, ports[0]), DEADLINE_S) as newcomer:
        newcomer.sendall(b"new")
        assert is_silent(client)
        assert is_silent(newcomer)
        assert bytes(node.got) == b"hello"
        proxy.set(FAIR)
        assert received(client, 4) == b"late"
        assert received(newcomer, 3) == b"new"


def test_requests_are_served_whose_answers_are_lost(client: socket.socket, proxy: Proxy, node: Echo) -> None:
    proxy.set(Weather(answers_pass=False))
    client.sendall(b"commit")
    until(lambda: bytes(node.got) == b"hellocommit", "the request arrives", DEADLINE_S)
    assert is_silent(client)
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        received(client, 1)


def test_delayed_bytes_keep_their_order(client: socket.socket, proxy: Proxy) -> None:
    proxy.set(Weather(delay_s=0.05))
    began = time.monotonic()
    for letter in b"abc":
        client.sendall(bytes([letter]))
    assert received(client, 3) == b"abc"
    assert time.monotonic() - began >= 0.1
    client.sendall(b"d")
    proxy.set(FAIR)
    client.sendall(b"e")
    assert received(client, 2) == b"de"


def test_a_client_that_does_not_read_stops_the_other_side(client: socket.socket, proxy: Proxy) -> None:
    """The proxy heaps nothing up: when nobody reads the answers, the client cannot send any more."""
    client.setblocking(False)
    sent, stuck_since = 0, time.monotonic()
    while time.monotonic() - stuck_since < SILENCE_S:
        with contextlib.suppress(BlockingIOError):
            sent += client.send(bytes(65_536))
            stuck_since = time.monotonic()
        assert sent < 1 << 28, "all this is held somewhere"


def test_where_nobody_listens_the_client_is_turned_away(ports: tuple[int, int], proxy: Proxy) -> None:

    def talk() -> None:
        with socket.create_connection((HOST, ports[0]), DEADLINE_S) as client:
            client.sendall(b"hello")
            received(client, 1)

    with pytest.raises(ConnectionResetError):
        talk()
    until(lambda: proxy.connections() == 0, "the connection is forgotten", DEADLINE_S)


def test_when_a_node_ends_its_clients_hear_of_it(client: socket.socket, node: Echo) -> None:
    node.close()
    assert received(client, 1) == b""
