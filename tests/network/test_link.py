"""The link of a broker with the replicas of its node: announcements, relays, hand-overs, restarts and
strangers."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.ground.identity import ClientIdentity
from actors.network import channel as channels
from actors.network.channel import Answer, Channel, Kind
from actors.network.connection import Connection
from actors.network.hub import Hub, Leading
from actors.network.link import Link
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.network.table import ConnectionTable
from tests.network.conftest import Run
from tests.network.sockets import PARK, Echo, new_table, pair, request, served, wire
from tests.polling import reached

SECRET = b"the tier's secret"
WHO = ClientIdentity("/1.2.3.4", "1.2.3.4:5678", "librdkafka", "2.3.0", "User:alice", "SASL_PLAINTEXT")


class Broker:
    def __init__(self, path: Path, secret: bytes = SECRET) -> None:
        self.quota = ConnectionQuota(ConnectionLimits())
        self.table = ConnectionTable(asyncio.get_running_loop(), ConnectionLimits(), self.quota.gone)
        self.hub = Hub(str(path / "hub.sock"), secret, self, self.quota)
        self.echo = Echo()
        self.links: list[tuple[int, bool]] = []
        self.leadings: list[tuple[int, Leading | None]] = []
        self.relays: list[tuple[int, ClientIdentity, bytes, Answer]] = []
        self.hub.start()

    def on_leading(self, partition: int, leading: Leading | None) -> None:
        self.leadings.append((partition, leading))

    def on_link(self, partition: int, connected: bool) -> None:
        self.links.append((partition, connected))

    def on_relay(self, partition: int, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        self.relays.append((partition, identity, frame, answer))

    def on_hand_back(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        self.table.adopt(sock, buffered, identity, self.echo)

    def close(self) -> None:
        self.hub.close()
        self.table.close()


class ReplicaEnd:
    def __init__(self, path: Path, partition: int = 0, secret: bytes = SECRET) -> None:
        self.link = Link(str(path / "hub.sock"), secret, partition, self)
        self.table = ConnectionTable(asyncio.get_running_loop(), ConnectionLimits(), self.link.gone)
        self.echo = Echo()
        self.pushes: list[tuple[str, bytes]] = []
        self.relays: list[tuple[ClientIdentity, bytes, Answer]] = []
        self.connections = 0
        self.link.start()

    def on_connected(self) -> None:
        self.connections += 1

    def on_disconnected(self) -> None:
        assert not self.link.connected

    def on_handover(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        self.table.adopt(sock, buffered, identity, self.echo)

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        self.relays.append((identity, frame, answer))

    def on_push(self, kind: str, payload: bytes) -> None:
        self.pushes.append((kind, payload))

    def addresses(self) -> Mapping[str, int]:
        return self.table.addresses()

    def close(self) -> None:
        self.link.close()
        self.table.close()


class Relaying(Echo):
    """A broker's service for kept connections: requests of key PARK are relayed, others answered here."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub = hub

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        if frame[:2] != PARK.to_bytes(2, "big"):
            return super().on_frame(connection, frame)

        def answer(answered: bytes | None) -> None:
            if answered is None:
                connection.close()
            else:
                connection.answer(answered)

        self.hub.ask(0, connection.identity, frame, answer, 10.0)
        return None


def test_a_restarted_broker_is_told_again_within_a_second(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        one, two = ReplicaEnd(tmp_path, 1), ReplicaEnd(tmp_path, 2)
        broker.hub.push("image", b"v1")
        one.link.announce(7, 3, True)
        await reached(lambda: broker.hub.leaders == {1: Leading(7, 3, True)})
        broker.hub.push("image", b"v2")
        await reached(lambda: one.pushes[-1:] == two.pushes[-1:] == [("image", b"v2")])
        broker.close()
        await reached(lambda: not one.link.connected and not two.link.connected)
        two.link.announce(9, 4, False)
        broker = Broker(tmp_path)
        broker.hub.push("image", b"v3")
        started_s = asyncio.get_running_loop().time()
        await reached(lambda: broker.hub.leaders == {1: Leading(7, 3, True), 2: Leading(9, 4, False)})
        assert asyncio.get_running_loop().time() - started_s < 1.0
        await reached(lambda: one.pushes[-1:] == two.pushes[-1:] == [("image", b"v3")])
        assert (one.connections, two.connections) == (2, 2)
        for end in (one, two, broker):
            end.close()

    run(story())


def test_a_leader_that_is_gone_leads_no_more(run: Run, tmp_path: Path) -> None:
    """The broker goes on knowing what this leader said of another node, but not that it serves here."""

    async def story() -> None:
        broker = Broker(tmp_path)
        here, elsewhere = ReplicaEnd(tmp_path, 1), ReplicaEnd(tmp_path, 2)
        here.link.announce(0, 5, True)
        elsewhere.link.announce(2, 6, False)
        await reached(lambda: len(broker.hub.leaders) == 2)
        here.close()
        elsewhere.close()
        await reached(lambda: not broker.hub.connected(1) and not broker.hub.connected(2))
        assert broker.hub.leaders == {2: Leading(2, 6, False)}
        assert (1, None) in broker.leadings
        with socket.socket() as kept:
            assert not broker.hub.hand_over(1, kept, WHO, b"")
            assert kept.fileno() >= 0
        again = ReplicaEnd(tmp_path, 1)
        twin = ReplicaEnd(tmp_path, 1)  # restarted before its old socket was seen to close
        await reached(lambda: broker.links.count((1, True)) >= 3)
        for end in (again, twin, broker):
            end.close()

    run(story())


def test_relays_go_both_ways_and_answers_find_their_askers(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path, 4)
        await reached(lambda: replica.link.connected)
        asked = [
            asyncio.ensure_future(broker.hub.relay(4, WHO, request(number), 10.0)) for number in range(3)
        ]
        await reached(lambda: len(replica.relays) == 3)
        assert [frame for _, frame, _ in replica.relays] == [request(number) for number in range(3)]
        assert {identity for identity, _, _ in replica.relays} == {WHO}
        for _, frame, answer in reversed(replica.relays):
            answer(wire(frame))
            answer(b"a second answer is nobody's")
        assert await asyncio.gather(*asked) == [wire(request(number)) for number in range(3)]
        back = asyncio.ensure_future(replica.link.relay(WHO, request(9), 10.0))
        await reached(lambda: broker.relays)
        [(partition, _, frame, answer)] = broker.relays
        answer(None)
        assert (partition, frame, await back) == (4, request(9), None)
        big = bytes(20 * 1024 * 1024)
        asked = [asyncio.ensure_future(broker.hub.relay(4, WHO, big, 10.0))]
        await reached(lambda: len(replica.relays) == 4)
        replica.relays[3][2](replica.relays[3][1])
        assert await asked[0] == big
        broker.close()
        replica.close()

    run(story())


def test_relayed_answers_keep_their_place_on_the_connection(run: Run, tmp_path: Path) -> None:
    """W13 holds for a client with one connection for everything (kafkajs, sarama): request 1 is answered
    here, 2 by the replica, 3 here."""

    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        client, _ = served(Relaying(broker.hub), new_table())
        await client.send(wire(request(1), request(2, key=PARK), request(3)))
        assert await client.receive(12) == wire(request(1))
        await reached(lambda: replica.relays)
        [(_, frame, answer)] = replica.relays
        answer(wire(frame))
        assert await client.receive(24) == wire(request(2, key=PARK), request(3))
        client.close()
        broker.close()
        replica.close()

    run(story())


def test_a_lost_link_fails_its_relays_at_once(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        echo = Relaying(broker.hub)
        client, _ = served(echo, new_table())
        await client.send(wire(request(1), request(2, key=PARK)))
        asked = [asyncio.ensure_future(broker.hub.relay(0, WHO, request(n), 60.0)) for n in range(5)]
        await reached(lambda: len(replica.relays) == 6)
        late = replica.relays[0][2]
        replica.close()
        assert await asyncio.gather(*asked) == [None] * 5
        late(wire(request(2)))  # the link it came by is gone
        assert await client.receive(100) == wire(request(1))
        assert await broker.hub.relay(0, WHO, request(9), 60.0) is None
        client.close()
        broker.close()

    run(story())


def test_a_relay_nobody_answers_ends_in_time(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        assert await broker.hub.relay(0, WHO, request(1), 0.05) is None
        replica.relays[0][2](wire(request(1)))
        assert await replica.link.relay(WHO, request(2), 0.05) is None
        assert broker.hub.connected(0)
        broker.close()
        replica.close()

    run(story())


def test_a_connection_goes_to_the_replica_and_back_with_its_claim(run: Run, tmp_path: Path) -> None:
    """Identity, bytes read and the place in `max.connections` go along; a restarted broker counts anew."""

    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        client, accepted, _ = pair()
        broker.quota.claim(WHO.address)
        assert broker.hub.hand_over(0, accepted, WHO, wire(request(1, key=PARK), request(2)))
        await reached(lambda: replica.echo.parked)
        assert accepted.fileno() == -1
        [(connection, frame)] = replica.echo.parked
        assert connection.identity == WHO
        assert broker.quota.count("1.2.3.4") == 1
        broker.close()
        await reached(lambda: not replica.link.connected)
        broker = Broker(tmp_path)
        await reached(lambda: broker.quota.count("1.2.3.4") == 1)
        connection.release(lambda sock, buffered: replica.link.hand_back(sock, WHO, buffered), unserved=frame)
        await reached(lambda: broker.echo.parked)
        broker.echo.parked[0][0].answer(wire(frame))
        assert await client.receive(24) == wire(request(1, key=PARK), request(2))
        assert (broker.quota.total, len(replica.table), len(broker.table)) == (1, 0, 1)
        client.close()
        await reached(lambda: broker.quota.total == 0)
        broker.close()
        replica.close()

    run(story())


def test_connections_that_come_together_are_taken_together(run: Run, tmp_path: Path) -> None:
    """A storm of clients must not cost the replica a round of its loop, and a turn, for each of them."""

    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        pairs = [pair() for _ in range(40)]
        for _, accepted, identity in pairs:
            assert broker.hub.hand_over(0, accepted, identity, b"")
        rounds = 0
        while len(replica.table) < len(pairs):
            await asyncio.sleep(0)
            rounds += len(replica.table) > 0
        assert rounds <= 3
        for client, _, _ in pairs:
            client.close()
        broker.close()
        replica.close()

    run(story())


def test_claims_end_with_their_connection_and_with_their_replica(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        clients = []
        for number in range(3):
            client, accepted, identity = pair()
            broker.quota.claim(identity.address)
            assert broker.hub.hand_over(0, accepted, identity, wire(request(number)))
            clients.append(client)
        for number, client in enumerate(clients):
            assert await client.receive(12) == wire(request(number))
        clients[0].close()
        await reached(lambda: broker.quota.total == 2)
        replica.close()
        await reached(lambda: broker.quota.total == 0)
        for client in clients[1:]:
            assert await client.ended()
            client.close()
        broker.close()

    run(story())


def test_a_replica_that_does_not_read_is_dropped(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 9: the queue of a link is bounded; connections still in it end, the others fail over."""
    monkeypatch.setattr(channels, "LINK_QUEUE_BYTES_MAX", 4 * 1024 * 1024)

    async def story() -> None:
        broker, replica = Broker(tmp_path), ReplicaEnd(tmp_path)
        await reached(lambda: replica.link.connected)
        client, accepted, identity = pair()
        answers: list[bytes | None] = []
        for _ in range(5):
            broker.hub.ask(0, WHO, bytes(1024 * 1024), answers.append, 60.0)
            broker.hub.hand_over(0, accepted, identity, b"") if accepted.fileno() >= 0 else None
        assert answers == [None] * 5
        assert not broker.hub.connected(0)
        assert await client.ended()
        await reached(lambda: replica.connections == 2)
        client.close()
        broker.close()
        replica.close()

    run(story())


class Stranger:
    """A process that knows the path of the socket, but not the secret."""

    def __init__(self, path: Path) -> None:
        self.lost: list[str] = []
        self.messages: list[list[Any]] = []
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path / "hub.sock"))
        self.channel = Channel(asyncio.get_running_loop(), sock, self)

    def on_message(self, message: list[Any]) -> None:
        self.messages.append(message)

    def on_socket(self, sock: socket.socket | None, identity: ClientIdentity, buffered: bytes) -> None:
        raise AssertionError("nothing is handed to a stranger")

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        raise AssertionError("nothing is relayed to a stranger")

    def on_lost(self, reason: str) -> None:
        self.lost.append(reason)


@pytest.mark.parametrize(
    "message",
    [
        (Kind.HELLO, 1, 0, bytes(32), bytes(32)),
        (Kind.HELLO, 99, 0, bytes(32), bytes(32)),
        (Kind.HELLO, 1, "zero", bytes(32), bytes(32)),
        (Kind.HELLO, 1, 0, None, None),
        (Kind.HELLO,),
        (Kind.LEADING, 1, 2, True),
        (Kind.RELAY, 1, list(WHO), b"frame"),
        (Kind.HANDOVER, list(WHO), b""),
        (Kind.PUSH, "image", bytes(5000)),
        ("?",),
        (77,),
    ],
)
def test_strangers_are_shown_the_door(run: Run, tmp_path: Path, message: tuple[Any, ...]) -> None:
    async def story() -> None:
        broker = Broker(tmp_path)
        stranger = Stranger(tmp_path)
        client, accepted, _ = pair()
        stranger.channel.send(message, accepted)
        await reached(lambda: stranger.lost)
        assert [received[0] for received in stranger.messages] in ([], [Kind.CHALLENGE])
        assert (broker.links, broker.relays, broker.hub.leaders) == ([], [], {})
        assert await client.ended()
        client.close()
        broker.close()

    run(story())


def test_a_wrong_secret_is_refused_on_both_sides_with_one_line_each(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        broker, other = Broker(tmp_path), ReplicaEnd(tmp_path, secret=b"another tier's")
        await reached(lambda: "does not know the tier's secret" in caplog.text)
        right = ReplicaEnd(tmp_path, 1)
        await reached(lambda: right.link.connected)
        assert (other.connections, broker.links) == (0, [(1, True)])
        for end in (other, right, broker):
            end.close()

    run(story())
    assert caplog.text.count("refused a link on") == 1


def test_the_socket_is_private_stale_files_go_and_a_living_broker_stays(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "hub.sock"
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(path))
            killed.listen()
        broker = Broker(tmp_path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with pytest.raises(OSError, match="another broker listens there") as caught:
            Broker(tmp_path)
        assert caught.value.errno == errno.EADDRINUSE
        broker.close()
        assert not path.exists()
        path.write_text("not a socket")
        with pytest.raises(OSError, match="cannot listen"):
            Broker(tmp_path)
        assert path.read_text() == "not a socket"
        with pytest.raises(OSError, match="at most 107 bytes"):
            Broker(tmp_path / ("x" * 120))

    run(story())
