"""A node's port: limits, garbage, a full file table, and the three ways in which a new connection goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import struct
from collections.abc import Callable

import pytest

from actors.ground.identity import ClientIdentity, identity_of
from actors.ground.limits import FIRST_FRAME_FREE_BYTES, FRAME_BYTES_MAX, MIB, SASL_FRAME_BYTES_MAX
from actors.ground.spec import PLAINTEXT, SASL_PLAINTEXT
from actors.network.certificates import Certificates
from actors.network.early import Again, Decision, EarlyConnection, HandOver, Keep
from actors.network.file_limit import raise_file_limit
from actors.network.listener import ACCEPT_PAUSE_S, Listener, PortSecurity
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.network.table import ConnectionTable
from tests.network.conftest import Run
from tests.network.sockets import Client, Echo, connect, request, wire
from tests.polling import reached

KEEP, GIVE, BYE, RAISE, WAIT = 1, 2, 3, 4, 5
KIB = 1024


class Node:
    """A listener with the parts that a broker has around it."""

    def __init__(
        self, listener_name: str = PLAINTEXT, certificates: Certificates | None = None, **limits: int
    ) -> None:
        self.limits = ConnectionLimits(**limits)
        self.quota = ConnectionQuota(self.limits)
        self.table = ConnectionTable(asyncio.get_running_loop(), self.limits, self.quota.gone)
        self.echo = Echo()
        self.given: list[tuple[socket.socket, ClientIdentity, bytes]] = []
        self.takes = True
        self.is_waiting = False
        """Whether frames of the key WAIT are to be decided later."""
        self.wakes: list[Callable[[], object]] = []
        """What is to be called when it is time for those that wait."""
        self.decided = 0
        security = PortSecurity(listener_name, certificates)
        self.listener = Listener(("127.0.0.1", 0), self.decide, self.table, self.quota, security)
        self.address = ("", 0)

    async def __aenter__(self) -> Node:
        self.address = ("127.0.0.1", await self.listener.start())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.listener.close()
        self.table.close()
        await reached(lambda: len(self.table) == 0)
        for sock, _, _ in self.given:
            sock.close()

    def decide(self, early: EarlyConnection, frame: bytes) -> Decision:
        (key,) = struct.unpack_from(">h", frame)
        self.decided += 1
        if key == WAIT and self.is_waiting:
            return Again(self.wakes.append)
        if key == RAISE:
            raise RuntimeError("a bug")
        if key == KEEP:
            early.session = "its session"
            return Keep(self.echo)
        if key == GIVE:
            return HandOver(self.give, self.echo)
        if key == BYE:
            early.close("it said goodbye")
        return wire(frame)

    def give(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> bool:
        if self.takes:
            self.given.append((sock, identity, buffered))
        return self.takes


def full(hogs: list[socket.socket]) -> bool:
    """Take one more file descriptor; True if there was none."""
    try:
        hogs.append(socket.socket())
    except OSError as error:
        return error.errno == errno.EMFILE
    return False


async def beat(client: Client, number: int) -> None:
    await client.send(wire(request(number)))
    assert await client.receive(12) == wire(request(number))


def test_early_frames_are_answered_then_the_connection_is_kept(run: Run) -> None:
    async def story() -> None:
        async with Node() as node:
            client = await connect(node.address)
            sent = wire(request(1), request(2), request(3, key=KEEP), request(4))
            for byte in sent[:20]:
                await client.send(bytes([byte]))
            await client.send(sent[20:])
            assert await client.receive(len(sent)) == sent
            assert node.echo.served == [request(3, key=KEEP), request(4)]
            [connection] = node.table.connections()
            assert connection.session == "its session"
            assert (node.quota.total, len(node.listener.early)) == (1, 0)
            client.close()
            await reached(lambda: node.quota.total == 0)

    run(story())


def test_a_frame_that_is_decided_later_keeps_its_place(run: Run) -> None:
    """What the client has sent behind it waits; a client that gives up meanwhile leaves nothing behind."""

    async def story() -> None:
        async with Node() as node:
            node.is_waiting = True
            client, gone = await connect(node.address), await connect(node.address)
            await client.send(wire(request(1, key=WAIT), request(2), request(3, key=GIVE)))
            await gone.send(wire(request(1, key=WAIT)))
            await reached(lambda: len(node.wakes) == 2)
            for wake in (*node.wakes, *node.wakes):
                wake()  # they are decided again, and have to wait again
            assert node.decided == 6
            gone.close()
            node.is_waiting = False
            for wake in node.wakes[2:]:
                wake()
            assert await client.receive(24) == wire(request(1, key=WAIT), request(2))
            await reached(lambda: node.given)
            assert node.given[0][2] == wire(request(3, key=GIVE))
            await reached(lambda: not node.listener.early)
            client.close()

    run(story())


def test_a_connection_is_given_away_with_all_bytes_read(run: Run) -> None:
    async def story() -> None:
        async with Node() as node:
            client = await connect(node.address)
            await client.send(wire(request(1), request(2, key=GIVE), request(3)) + b"\x00\x00")
            await reached(lambda: node.given)
            [(sock, identity, buffered)] = node.given
            assert buffered == wire(request(2, key=GIVE), request(3)) + b"\x00\x00"
            own = client.sock.getsockname()
            assert identity == ClientIdentity("/127.0.0.1", f"127.0.0.1:{own[1]}")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert await client.receive(12) == wire(request(1))
            assert node.quota.total == 1  # the claim is with whoever has the socket
            client.close()

    run(story())


def test_a_connection_nobody_takes_is_served_here(run: Run) -> None:
    async def story() -> None:
        async with Node() as node:
            node.takes = False
            client = await connect(node.address)
            await client.send(wire(request(1, key=GIVE), request(2)))
            assert await client.receive(24) == wire(request(1, key=GIVE), request(2))
            client.close()

    run(story())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", -1), "frame length -1"),
        (b"\x16\x03\x03\x00\x10", "a TLS handshake"),
        (b"POST /topics HTTP/1.1\r\n", "an HTTP request"),
        (wire(request(1, key=BYE)), "it said goodbye"),
        (wire(request(1, key=RAISE)), "its request could not be decided"),
    ],
    ids=["negative", "TLS", "HTTP", "told to go", "a bug"],
)
def test_a_bad_start_ends_with_one_line(
    run: Run, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    async def story() -> None:
        async with Node() as node:
            client = await connect(node.address)
            await client.send(sent)
            answered = wire(request(1, key=BYE)) if "goodbye" in reason else b""
            assert await client.receive(100) == answered
            [record] = caplog.records
            assert f"closed 127.0.0.1:{client.sock.getsockname()[1]}: {reason}" in record.getMessage()
            assert node.quota.total == 0
            client.close()

    run(story())


def test_connections_beyond_the_limits_are_closed_and_counted(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """`max.connections.per.ip` and `max.connections` hold, and a flood of refusals is one line of the log."""

    async def story() -> None:
        async with Node(connections_per_address_max=3) as node:
            clients = [await connect(node.address) for _ in range(8)]
            for number, client in enumerate(clients[:3]):
                await beat(client, number)
            for client in clients[3:]:
                assert await client.ended()
            assert (node.quota.total, node.quota.count("127.0.0.1")) == (3, 3)
            assert node.quota.refused_total == 5
            assert len(caplog.records) == 1
            assert "max.connections.per.ip is 3" in caplog.text
            clients[0].close()
            await reached(lambda: node.quota.total == 2)
            again = await connect(node.address)
            await beat(again, 9)
            for client in (*clients, again):
                client.close()
        async with Node(connections_max=1) as node:
            clients = [await connect(node.address) for _ in range(2)]
            assert await clients[1].ended()
            await beat(clients[0], 1)
            for client in clients:
                client.close()

    run(story())


def test_silent_newcomers_are_bounded_in_time_and_number(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Node(first_frame_ms_max=200, unproven_max=2) as node:
            slow = [await connect(node.address) for _ in range(2)]
            await slow[0].send(b"\x00\x00\x00")
            third = await connect(node.address)
            assert await third.ended()
            assert "2 connections have not sent a request yet" in caplog.text
            for client in slow:
                assert await client.ended()
            assert caplog.text.count("no whole request within the time allowed") == 2
            late = await connect(node.address)
            await beat(late, 1)
            for client in (*slow, third, late):
                client.close()

    run(story())


@pytest.mark.parametrize("frame_bytes", [70 * KIB, MIB, FRAME_BYTES_MAX], ids=["70 KiB", "1 MiB", "largest"])
def test_a_first_request_may_be_as_large_as_any_other(run: Run, frame_bytes: int) -> None:
    """W13: Kafka bounds it by `socket.request.max.bytes` alone; a client may begin with a Produce."""

    async def story() -> None:
        async with Node() as node:
            client = await connect(node.address)
            sent = wire(request(1, bytes(frame_bytes - len(request(1))), key=GIVE))
            await client.send(sent)
            await reached(lambda: node.given)
            assert node.given[0][2] == sent
            assert node.listener.first_frames.claimed_bytes == 0
            client.close()

    run(story())


def test_a_first_request_that_is_too_large_is_told_before_it_is_read(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Node(frame_bytes_max=MIB) as node:
            client = await connect(node.address)
            await client.send(struct.pack(">i", MIB + 1) + bytes(10))
            assert await client.ended()
            assert f"frame length {MIB + 1}, allowed are 8 to {MIB}" in caplog.text
            client.close()

    run(story())


def test_a_client_that_has_yet_to_authenticate_has_less_to_say(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka bounds its frames by `sasl.server.max.receive.size`, half a MiB."""

    async def story() -> None:
        async with Node(listener_name=SASL_PLAINTEXT) as node:
            client = await connect(node.address)
            large = wire(request(1, bytes(SASL_FRAME_BYTES_MAX - 8)))
            await client.send(large)
            assert await client.receive(len(large)) == large
            await client.send(large)
            assert await client.receive(len(large)) == large
            assert node.listener.first_frames.claimed_bytes == 0
            await client.send(struct.pack(">i", SASL_FRAME_BYTES_MAX + 1))
            assert await client.ended()
            assert f"frame length {SASL_FRAME_BYTES_MAX + 1}" in caplog.text
            client.close()

    run(story())


def test_a_large_first_request_that_does_not_end_is_bounded_in_time(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Node(first_frame_ms_max=200) as node:
            client = await connect(node.address)
            await client.send(wire(request(1, bytes(MIB)))[:-1])
            await reached(lambda: node.listener.first_frames.claimed_bytes > MIB)
            assert await client.ended()
            assert "no whole request within the time allowed" in caplog.text
            assert node.listener.first_frames.claimed_bytes == 0
            client.close()

    run(story())


def test_a_thousand_large_first_requests_that_do_not_end_leave_room_for_others(run: Run) -> None:
    """What they may have is bounded together. A small request waits for nobody, a large one for a sweep."""
    half = wire(request(1, bytes(128 * KIB)))[: 64 * KIB]
    budget = 4 * MIB

    async def story() -> None:
        async with Node(first_frames_bytes_max=budget) as node:
            frames = node.listener.first_frames
            hold_sweeps(node)
            slow = []
            for _ in range(1_000):
                slow.append(await connect(node.address))
                await slow[-1].send(half)
                assert frames.claimed_bytes <= budget
            await reached(lambda: len(node.listener.early) == 1_000)
            await reached(lambda: frames.claimed_bytes > budget - 128 * KIB)
            read = sum(early.read_bytes for early in node.listener.early)
            assert read <= budget + 1_000 * FIRST_FRAME_FREE_BYTES
            good, large = await connect(node.address), await connect(node.address)
            await beat(good, 1)
            assert len(node.listener.early) >= 1_001, "nobody had to go for a small request"
            sent = wire(request(2, bytes(70 * KIB)))
            await large.send(sent)
            node.listener._sweep()  # from now on it comes again by itself
            assert await large.receive(len(sent)) == sent
            assert frames.claimed_bytes <= budget
            for client in (*slow, good, large):
                client.close()

    run(story())


def hold_sweeps(node: Node) -> None:
    """Let no sweep come by itself: the test says when time has passed."""
    assert node.listener._sweeping is not None
    node.listener._sweeping.cancel()


def test_a_proven_early_connection_is_closed_when_idle(run: Run) -> None:
    async def story() -> None:
        async with Node(first_frame_ms_max=100, idle_ms_max=300) as node:
            client = await connect(node.address)
            await beat(client, 1)
            assert await client.ended()
            assert node.quota.total == 0
            client.close()

    run(story())


def test_an_early_client_that_does_not_read_is_not_read_from(run: Run) -> None:
    async def story() -> None:
        async with Node() as node:
            client = await connect(node.address)
            big = wire(request(2, bytes(4 * 1024 * 1024)))
            await client.send(wire(request(1)))
            assert await client.receive(12) == wire(request(1))
            sending = asyncio.ensure_future(client.send(big * 8))
            [early] = node.listener.early
            await reached(lambda: early._unsent)
            assert len(early._frames) < 64 * 1024
            assert not sending.done()
            assert await client.receive(8 * len(big)) == big * 8
            await sending
            client.close()

    run(story())


def test_a_full_file_table_pauses_accepting_and_ends_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """EMFILE: connected clients are served, and waiting ones are accepted once there is room."""

    async def story() -> None:
        async with Node() as node:
            first = await connect(node.address)
            await beat(first, 1)
            waiting = socket.socket()
            waiting.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            room = waiting.fileno() + 1
            hogs: list[socket.socket] = []
            resource.setrlimit(resource.RLIMIT_NOFILE, (room + 1, hard))
            try:
                while len(hogs) < room and not full(hogs):
                    pass
                second = Client(waiting)
                await asyncio.get_running_loop().sock_connect(waiting, node.address)
                await reached(lambda: "no room for another connection" in caplog.text)
                await beat(first, 2)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for hog in hogs:
                    hog.close()
            since_s = asyncio.get_running_loop().time()
            await beat(second, 3)
            assert asyncio.get_running_loop().time() - since_s < ACCEPT_PAUSE_S + 2
            first.close()
            second.close()

    with caplog.at_level(logging.INFO):
        run(story())


def test_a_port_in_use_is_named(run: Run) -> None:
    """The start fails with one error that names what is wrong."""

    async def story() -> None:
        async with Node() as node:
            another = Listener(node.address, node.decide, node.table, node.quota)
            with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{node.address[1]}") as caught:
                await another.start()
            assert caught.value.errno == errno.EADDRINUSE

    run(story())


def test_raising_the_file_limit_reaches_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("address", "client_host", "peer"),
    [
        (("1.2.3.4", 5678), "/1.2.3.4", "1.2.3.4:5678"),
        (("::1", 9, 0, 0), "/0:0:0:0:0:0:0:1", "[0:0:0:0:0:0:0:1]:9"),
        (("::ffff:1.2.3.4", 9, 0, 0), "/1.2.3.4", "1.2.3.4:9"),
        (("fe80::1%eth0", 9, 0, 2), "/fe80:0:0:0:0:0:0:1", "[fe80:0:0:0:0:0:0:1]:9"),
    ],
)
def test_a_client_host_is_written_as_java_writes_it(
    address: tuple[object, ...], client_host: str, peer: str
) -> None:
    assert identity_of(address) == ClientIdentity(client_host, peer)


@pytest.mark.parametrize("bad", [{"frame_bytes_max": 7}, {"connections_max": 0}, {"idle_ms_max": 0}])
def test_impossible_limits_are_refused_by_name(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="allowed are"):
        ConnectionLimits(**bad)
