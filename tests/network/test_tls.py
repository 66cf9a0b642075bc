"""TLS at a node's port: what is said through it arrives, who does not get through it disturbs nobody."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import shutil
import socket
import ssl
from functools import partial
from pathlib import Path

import pytest

from actors.ground.spec import SASL_SSL, SSL
from actors.network import handshakes
from tests.authority import Authority, Issued
from tests.network.conftest import Run
from tests.network.sockets import Client, connect, request, wire
from tests.network.test_listener import GIVE, KEEP, Node
from tests.network.tls_port import HOST, Port, TlsClient
from tests.polling import reached

MIB = 1024 * 1024
CROWD = 150


@pytest.fixture(scope="module")
def node_issued(authority: Authority) -> Issued:
    return authority.certify("node")


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Issued:
    return authority.certify("alice", subject="/O=shop/CN=alice")


async def refused(node: Node, context: ssl.SSLContext) -> str:
    """Connect, say something, and return as what the refusal shows."""
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)) as raised:
        await (await TlsClient.connect(node, context)).beat(request(1))
    await reached(lambda: node.quota.total == 0)
    return str(raised.value)


def test_frames_are_answered_then_the_connection_is_kept(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            client = await TlsClient.connect(node, port.context())
            await client.beat(request(1), request(2), request(3, key=KEEP), request(4))
            [connection] = node.table.connections()
            own = client.writer.get_extra_info("sockname")
            assert connection.identity.peer == f"{own[0]}:{own[1]}"
            assert (connection.identity.principal, connection.identity.listener) == ("User:ANONYMOUS", SSL)
            client.close()
            await reached(lambda: node.quota.total == 0)

    run(story())


def test_what_is_given_away_is_a_plain_socket_that_speaks_for_the_client(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    """Whoever has it reads and writes what the client does; when it closes, the client learns it."""
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            client = await TlsClient.connect(node, port.context())
            client.writer.write(wire(request(1, key=GIVE)))
            await reached(lambda: node.given)
            [(sock, identity, buffered)] = node.given
            assert (buffered, identity.client_host) == (wire(request(1, key=GIVE)), f"/{HOST}")
            loop = asyncio.get_running_loop()
            client.writer.write(b"more")
            assert await loop.sock_recv(sock, 100) == b"more"
            await loop.sock_sendall(sock, b"answer")
            assert await client.reader.readexactly(6) == b"answer"
            await loop.sock_sendall(sock, b"last")
            sock.close()
            assert await client.reader.read() == b"last"

    run(story())


def test_much_is_carried_both_ways_while_each_side_waits_for_the_other(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    """Sender and receiver both stall; neither the pump nor the client may lose or change a byte."""
    port = Port(authority, node_issued.both)
    sent = bytes(range(256)) * (4 * MIB // 256)

    async def story() -> None:
        async with port.node() as node:
            client = await TlsClient.connect(node, port.context())
            client.writer.write(wire(request(1, key=GIVE)))
            await reached(lambda: node.given)
            sock, loop = node.given[0][0], asyncio.get_running_loop()
            client.writer.write(sent)
            answering = asyncio.ensure_future(loop.sock_sendall(sock, sent))
            received = bytearray()
            while len(received) < len(sent):
                received += await loop.sock_recv(sock, MIB)
            assert received == sent
            assert await client.reader.readexactly(len(sent)) == sent
            await answering
            client.close()
            assert await loop.sock_recv(sock, 1) == b""

    run(story())


def test_a_client_that_takes_no_answers_is_read_no_further(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    """What waits is bounded: the service can send some hundred kilobytes and then has to wait."""
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            client = await TlsClient.connect(node, port.context())
            client.writer.write(wire(request(1, key=GIVE)))
            await reached(lambda: node.given)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            sock, taken_bytes, quiet = node.given[0][0], 0, 0
            while quiet < 20:
                try:
                    taken_bytes += sock.send(bytes(64 * 1024))
                    quiet = 0
                except BlockingIOError:
                    quiet += 1
                await asyncio.sleep(0.01)
            assert taken_bytes < 16 * MIB
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await client.reader.readexactly(taken_bytes) == bytes(taken_bytes)
            client.close()

    run(story())


def test_a_client_that_takes_nothing_for_too_long_is_given_up(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node(idle_ms_max=1_000) as node:
            client = await TlsClient.connect(node, port.context())
            client.writer.write(wire(request(1, key=GIVE)))
            await reached(lambda: node.given)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            sock, loop = node.given[0][0], asyncio.get_running_loop()
            with pytest.raises(ConnectionError):
                await loop.sock_sendall(sock, bytes(64 * MIB))
            client.close()

    run(story())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_says_who_a_client_is(
    run: Run, authority: Authority, node_issued: Issued, alice: Issued, version: ssl.TLSVersion
) -> None:
    rules = "RULE:^CN=(.*?),O=shop$/$1/U,DEFAULT"
    port = Port(authority, node_issued.both, client_auth="requested", principal_mapping_rules=rules)

    async def story() -> None:
        async with port.node() as node:
            for shown, principal in ((alice, "User:ALICE"), (None, "User:ANONYMOUS")):
                context = port.context(shown)
                context.maximum_version = version
                client = await TlsClient.connect(node, context)
                await client.beat(request(1, key=KEEP))
                [connection] = node.table.connections()
                assert connection.identity.principal == principal
                client.close()
                await reached(lambda: not node.table.connections())

    run(story())


def test_with_sasl_a_certificate_does_not_log_in(
    run: Run, authority: Authority, node_issued: Issued, alice: Issued
) -> None:
    port = Port(authority, node_issued.both, SASL_SSL, client_auth="required")

    async def story() -> None:
        async with port.node() as node:
            client = await TlsClient.connect(node, port.context(alice))
            client.writer.write(wire(request(1)))
            await client.reader.readexactly(12)
            [early] = node.listener.early
            assert early.identity.principal == ""
            client.close()

    run(story())


def test_who_does_not_get_through_is_told_why_and_logged(
    run: Run, authority: Authority, node_issued: Issued, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    port = Port(
        authority, node_issued.both, client_auth="required", principal_mapping_rules="RULE:^CN=bob$/bob/"
    )
    stranger = Authority(tmp_path / "stranger").certify("stranger")
    old = authority.certify("old", days=-1)
    eve = authority.certify("eve")
    bob = authority.certify("bob")
    cases = (
        (None, "certificate required", "it shows no certificate, and ssl.client.auth is required"),
        (stranger, "unknown ca", "the certificate is not believed: unable to get local issuer certificate"),
        (old, "certificate expired", "the certificate is not believed: certificate has expired"),
        (eve, "", "no rule of ssl.principal.mapping.rules is for 'CN=eve'"),
    )

    async def story() -> None:
        for shown, alert, line in cases:
            caplog.clear()
            async with port.node() as node:
                friend = await TlsClient.connect(node, port.context(bob))
                await friend.beat(request(1))
                context = port.context(shown)
                with pytest.raises((ssl.SSLError, OSError, asyncio.IncompleteReadError)) as raised:
                    await (await TlsClient.connect(node, context)).beat(request(1))
                assert alert in str(raised.value).lower().replace("_", " ")
                await reached(partial(_is_logged, line, caplog))
                assert node.quota.total == 1
                await friend.beat(request(2))
                friend.close()

    run(story())


def test_a_client_that_speaks_no_tls_is_refused(
    run: Run, authority: Authority, node_issued: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            for said in (wire(request(1)), b"GET / HTTP/1.1\r\n\r\n"):
                client = await connect(node.address)
                await client.send(said)
                assert await client.ended()
                client.close()
            await reached(lambda: node.quota.total == 0)
            assert port.certificates.handshakes_failed_total == 2
        assert "no TLS with 1 clients: it speaks no TLS; the last one was 127.0.0.1:" in caplog.text

    run(story())


def test_garbled_handshakes_end_and_disturb_nobody(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    """They begin as a client of TLS does, with bits changed, or bytes that only look like a record."""
    port = Port(authority, node_issued.both)
    hello, chance = greeting(port.context()), random.Random(11)

    async def story() -> None:
        async with port.node() as node:
            friend = await TlsClient.connect(node, port.context())
            for number in range(100):
                said = bytearray(hello)
                said[chance.randrange(len(said))] ^= 1 << chance.randrange(8)
                if number % 3 == 0:
                    said[5:] = chance.randbytes(len(said) - 5)
                client = await connect(node.address)
                await client.send(bytes(said))
                client.sock.shutdown(socket.SHUT_WR)
                while await asyncio.get_running_loop().sock_recv(client.sock, 65536):
                    pass
                client.close()
                await friend.beat(request(number))
            friend.close()
            await reached(lambda: node.quota.total == 0)

    run(story())


def test_a_client_that_only_knocks_is_no_failure(run: Run, authority: Authority, node_issued: Issued) -> None:
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            (await connect(node.address)).close()
            await reached(lambda: node.quota.total == 0)
            assert port.certificates.handshakes_failed_total == 0

    run(story())


def test_an_old_version_of_tls_is_refused(run: Run, authority: Authority, node_issued: Issued) -> None:
    port = Port(authority, node_issued.both, enabled_protocols=("TLSv1.3",))

    async def story() -> None:
        async with port.node() as node:
            context = port.context()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            assert "protocol version" in (await refused(node, context)).lower().replace("_", " ")

    run(story())


def test_half_a_handshake_is_closed_in_time(run: Run, authority: Authority, node_issued: Issued) -> None:
    """Some say nothing, some the beginning of a greeting, some all but the end: all are closed, and others
    served meanwhile."""
    port = Port(authority, node_issued.both)
    hello = greeting(port.context())

    async def story() -> None:
        async with port.node(first_frame_ms_max=500) as node:
            silent = [await connect(node.address) for _ in range(3)]
            await silent[1].send(hello[:20])
            await silent[2].send(hello)
            client = await TlsClient.connect(node, port.context())
            await client.beat(request(1))
            for each in silent:
                while await asyncio.get_running_loop().sock_recv(each.sock, 65536):
                    pass  # the node's own part of the handshake
                each.close()
            assert port.certificates.handshakes_failed_total == 3
            await client.beat(request(2))
            client.close()
            await reached(lambda: node.quota.total == 0)

    run(story())


def test_who_keeps_a_handshake_waiting_goes_when_others_need_the_room(
    run: Run, authority: Authority, node_issued: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 20)
    monkeypatch.setattr(handshakes, "STALLED_S", 0.2)
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            half_open = [await connect(node.address) for _ in range(20)]
            await reached(lambda: node.quota.total == 20)
            late = await connect(node.address)
            assert await late.ended()  # nobody has been waiting for long
            late.close()
            await asyncio.sleep(0.3)
            for number in range(5):
                client = await TlsClient.connect(node, port.context())
                await client.beat(request(number))
                client.close()
            assert await half_open[0].ended()
            assert node.quota.refused_total == 1
            for each in half_open:
                each.close()
            await reached(lambda: node.quota.total == 0)

    run(story())


def test_garbage_within_tls_closes_its_own_connection_only(
    run: Run, authority: Authority, node_issued: Issued
) -> None:
    port = Port(authority, node_issued.both)

    async def story() -> None:
        async with port.node() as node:
            friend = await TlsClient.connect(node, port.context())
            client = await TlsClient.connect(node, port.context())
            await client.beat(request(1, key=KEEP))
            raw = client.writer.get_extra_info("socket").fileno()
            with socket.socket(fileno=raw) as own:
                own.send(b"\x17\x03\x03\x00\x20" + bytes(32))
                own.detach()
            await reached(lambda: not node.table.connections())
            client.close()
            await friend.beat(request(2))
            friend.close()

    run(story())


def test_a_renewed_certificate_is_shown_to_newcomers_and_closes_nobody(
    run: Run, authority: Authority, node_issued: Issued, tmp_path: Path
) -> None:
    keystore = tmp_path / "keystore.pem"
    shutil.copy(node_issued.both, keystore)
    port = Port(authority, keystore)
    renewed = authority.certify("renewed")

    async def story() -> None:
        async with port.node() as node:
            before = await TlsClient.connect(node, port.context())
            await before.beat(request(1))
            shutil.copy(renewed.both, keystore)
            await reached(lambda: port.certificates.contexts.certificate.subject == "CN=renewed")
            after = await TlsClient.connect(node, port.context())
            await after.beat(request(2))
            shown = after.writer.get_extra_info("peercert")["subject"]
            assert shown == ((("commonName", "renewed"),),)
            await before.beat(request(3))
            before.close()
            after.close()

    run(story())


def test_a_crowd_of_newcomers_leaves_room_for_those_who_are_there(run: Run, authority: Authority) -> None:
    """The handshakes take a while together; a client whose connection is open is served between them."""
    port = Port(authority, authority.certify("slow", rsa=True).both)
    hello = greeting(port.context())

    async def story() -> None:
        async with port.node() as node:
            friend = await TlsClient.connect(node, port.context())
            await friend.beat(request(0))
            crowd = [await connect(node.address) for _ in range(CROWD)]
            await reached(lambda: node.quota.total == CROWD + 1)
            for each in crowd:
                each.sock.send(hello)
            await friend.beat(request(1))
            await friend.beat(request(2))
            answered = [each for each in crowd if _has_heard(each)]
            assert len(answered) < len(crowd) / 2
            for each in crowd:
                assert await each.receive(1)
                each.close()
            friend.close()

    run(story())


def _has_heard(client: Client) -> bool:
    try:
        return bool(client.sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def _is_logged(line: str, caplog: pytest.LogCaptureFixture) -> bool:
    return line in caplog.text


def greeting(context: ssl.SSLContext) -> bytes:
    """Return the first bytes that a client of TLS says."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
