"""Two transports on a real loop: identity, reconnection, bounds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from storage.errors import BadMessage
from storage.link import FRAME_BYTES_MAX
from storage.skeleton import Node
from storage.transport import PeerTransport

DEADLINE_S = 10.0
SECRET = b"one secret"


class Ear:
    """Raft's place behind a transport: notes what it is told."""

    def __init__(self, transport: PeerTransport) -> None:
        self.heard: list[Any] = []
        self.story: list[str] = []
        base: Any = transport  # pysyncobj's setters, as Raft's constructor calls them
        base.setOnMessageReceivedCallback(self._message)
        base.setOnNodeConnectedCallback(lambda node: self.story.append(f"up {node.id}"))
        base.setOnNodeDisconnectedCallback(lambda node: self.story.append(f"down {node.id}"))
        transport.on_peer_lost = lambda peer_id: self.story.append(f"lost {peer_id}")

    def _message(self, _node: Node, message: Any) -> None:
        if message == ("bad",):
            raise BadMessage("a bad message")
        self.heard.append(message)


class Pair:
    """Replicas "a" (listens) and "b" (dials) on Unix sockets."""

    def __init__(self, directory: Path) -> None:
        self.addresses = {"a": f"unix:{directory}/a", "b": f"unix:{directory}/b"}
        self.transports: dict[str, PeerTransport] = {}
        self.ears: dict[str, Ear] = {}
        self.activity = 0

    async def start(self, self_id: str, secret: bytes = SECRET, **options: Any) -> PeerTransport:
        peers = {peer_id: address for peer_id, address in self.addresses.items() if peer_id != self_id}
        loop = asyncio.get_running_loop()
        transport = PeerTransport(
            loop, self_id, self.addresses[self_id], peers, secret, self._on_activity, **options
        )
        self.transports[self_id] = transport
        self.ears[self_id] = Ear(transport)
        await transport.start()
        return transport

    def _on_activity(self) -> None:
        self.activity += 1

    async def connected(self) -> None:
        await until(lambda: all(t.connected_ids for t in self.transports.values()))

    async def close(self) -> None:
        for transport in self.transports.values():
            await transport.close()


async def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.002)


def play(scene: Callable[[], Coroutine[Any, Any, None]], *, uv: bool = False) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uv else None) as runner:
        runner.run(scene())


@pytest.mark.parametrize("uv", [False, True])
def test_messages_arrive_in_order_in_both_directions(tmp_path: Path, uv: bool) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        a, b = await pair.start("a"), await pair.start("b")
        await pair.connected()
        for number in range(1_000):
            assert a.send(Node("b"), (number, b"x" * number))
            assert b.send(Node("a"), (number, None, True, 1.5, ("t",)))
        await until(lambda: len(pair.ears["a"].heard) == len(pair.ears["b"].heard) == 1_000)
        assert pair.ears["b"].heard == [(number, b"x" * number) for number in range(1_000)]
        assert pair.ears["a"].heard == [(number, None, True, 1.5, ("t",)) for number in range(1_000)]
        assert pair.activity < 1_000, "once for all that a read brought"
        await pair.close()

    play(scene, uv=uv)


def test_tcp_addresses_work_too(tmp_path: Path, unused_ports: list[int]) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        pair.addresses = {"a": f"127.0.0.1:{unused_ports[0]}", "b": f"127.0.0.1:{unused_ports[1]}"}
        await pair.start("a")
        b = await pair.start("b")
        await pair.connected()
        assert b.send(Node("a"), ("over tcp",))
        await until(lambda: pair.ears["a"].heard == [("over tcp",)])
        await pair.close()

    play(scene)


@pytest.mark.parametrize("uv", [False, True])
def test_a_frame_of_32_mib_arrives_and_does_not_hold_up_what_follows(tmp_path: Path, uv: bool) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        a = await pair.start("a")
        await pair.start("b")
        await pair.connected()
        big = bytes(range(256)) * (32 * 4096)
        assert a.send(Node("b"), (big,))
        assert a.send(Node("b"), ("small",))
        await until(lambda: len(pair.ears["b"].heard) == 2)
        assert pair.ears["b"].heard == [(big,), ("small",)]
        await pair.close()

    play(scene, uv=uv)


def test_another_secret_is_refused_with_one_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        a = await pair.start("a")
        await pair.start("b", secret=b"another secret")
        await until(lambda: "proof is wrong" in caplog.text)
        seen = len(caplog.records)
        await until(lambda: time.monotonic() > started + 0.6)
        assert len(caplog.records) == seen == 1
        assert a.connected_ids == ()
        await pair.close()

    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_replica_that_is_reached_under_a_wrong_id_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Addresses mixed up: "b" thinks that it dials "0", and reaches "a"."""

    async def scene() -> None:
        pair = Pair(tmp_path)
        await pair.start("a")
        pair.addresses["0"] = pair.addresses.pop("a")
        b = await pair.start("b")
        await until(lambda: "wanted to reach '0'" in caplog.text)
        assert b.connected_ids == ()
        await pair.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


@pytest.mark.parametrize("restarted", ["a", "b"])
def test_a_restarted_replica_is_reconnected_within_100_ms(tmp_path: Path, restarted: str) -> None:
    """The bound is generous (a loaded machine); the story of the survivor says who hung up."""

    async def scene() -> None:
        pair = Pair(tmp_path)
        await pair.start("a")
        await pair.start("b")
        await pair.connected()
        survivor = "b" if restarted == "a" else "a"
        await pair.transports[restarted].close()
        await until(lambda: pair.ears[survivor].story[-1:] == [f"lost {restarted}"])
        before = time.monotonic()
        await pair.start(restarted)
        await pair.connected()
        assert time.monotonic() - before < 2.0
        up, down, lost = (f"{event} {restarted}" for event in ("up", "down", "lost"))
        await until(lambda: pair.ears[survivor].story == [up, down, lost, up])
        await pair.close()

    play(scene)


def test_noise_on_the_socket_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        await pair.start("a")
        b = await pair.start("b")
        await pair.connected()
        path = pair.addresses["a"].removeprefix("unix:")
        for noise in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x00\x00\x00\x01\xc1",
            b"\x00\x00\x00\x01\x01",
            b"\xff" * 99,
        ):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(noise)
            assert await reader.read() == b"", "closed without an answer"
            writer.close()
            await writer.wait_closed()
        assert b.send(Node("a"), ("still there",))
        await until(lambda: pair.ears["a"].heard == [("still there",)])
        await pair.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_bad_message_closes_the_link_and_it_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        await pair.start("a")
        b = await pair.start("b")
        await pair.connected()
        assert b.send(Node("a"), ("bad",))
        await until(lambda: pair.ears["a"].story == ["up b", "down b", "up b"])
        assert pair.ears["b"].story[:3] == ["up a", "down a", "lost a"], "its host hung up on it"
        await pair.close()

    play(scene)


def test_a_peer_that_does_not_read_loses_its_link(tmp_path: Path) -> None:
    """Bounds: what waits for one peer is dropped with the connection at 128 MiB."""

    async def scene() -> None:
        pair = Pair(tmp_path)
        a = await pair.start("a")
        await pair.start("b")
        await pair.connected()
        body = b"x" * (FRAME_BYTES_MAX // 2)
        sent = 0
        while a.send(Node("b"), (body,)):  # this loop gives "b" no chance to read
            sent += 1
        assert 2 <= sent <= 4
        assert pair.ears["a"].story == ["up b", "down b"]
        await pair.close()

    play(scene)


class _Faults:
    def __init__(self) -> None:
        self.plan: list[float | None] = [0.05, 0.0, None, 0.0]

    def delay_s(self, peer_id: str) -> float | None:
        return self.plan.pop(0) if self.plan else 0.0


def test_injected_faults_delay_in_order_and_drop(tmp_path: Path) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        a = await pair.start("a", faults=_Faults())
        await pair.start("b")
        await pair.connected()
        for number in range(6):
            assert a.send(Node("b"), (number,))
        await until(lambda: len(pair.ears["b"].heard) == 5)
        assert pair.ears["b"].heard == [(0,), (1,), (3,), (4,), (5,)]
        await pair.close()

    play(scene)


def test_a_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        pair = Pair(tmp_path)
        await pair.start("a")
        await pair.transports["a"].close()
        assert (tmp_path / "a").is_socket() or not (tmp_path / "a").exists()
        await pair.start("a")
        await pair.start("b")
        await pair.connected()
        await pair.close()

    play(scene)
