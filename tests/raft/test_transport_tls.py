"""Links over mutual TLS: what they carry, and who is refused by which words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from pathlib import Path

import pytest

from storage.raft.skeleton import Node
from storage.raft.tls import LinkTls, TlsStream, TlsUnusable
from tests.authority import Authority, openssl
from tests.polling import reached
from tests.raft.transports import A, B, Stage, play


class LinkAuthority(Authority):
    """The authority of a tier's links."""

    def issue(self, name: str) -> LinkTls:
        issued = self.certify(name, hosts=())
        return LinkTls(str(issued.certificate), str(issued.key), str(self.path))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LinkAuthority:
    return LinkAuthority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> LinkAuthority:
    return LinkAuthority(tmp_path_factory.mktemp("tls") / "theirs")


def on_tcp(directory: Path, ports: list[int]) -> Stage:
    stage = Stage(directory)
    stage.addresses = {A: f"127.0.0.1:{ports[0]}", B: f"127.0.0.1:{ports[1]}"}
    return stage


@pytest.mark.parametrize("uv", [False, True])
def test_replicas_of_one_authority_talk(
    tmp_path: Path, unused_ports: list[int], authority: LinkAuthority, uv: bool
) -> None:
    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        a = await stage.start(A, tls=authority.issue("a"))
        b = await stage.start(B, tls=authority.issue("b"))
        await stage.connected()
        big = bytes(range(256)) * (16 * 1024)
        for number in range(200):
            assert a.send(Node(B), (number,))
            assert b.send(Node(A), (number,))
        assert a.send(Node(B), (big,))
        await reached(lambda: len(stage.ears[B].heard) == 201 and len(stage.ears[A].heard) == 200)
        assert stage.ears[B].heard == [*((number,) for number in range(200)), (big,)]
        assert stage.ears[A].heard == [(number,) for number in range(200)]
        assert stage.ears[A].story == [f"up {B}"]
        await a.close()
        await reached(lambda: stage.ears[B].story == [f"up {A}", f"down {A}", f"lost {A}"])
        await stage.close()

    play(scene, uv=uv)


def test_nothing_that_is_said_can_be_read_on_the_way(
    tmp_path: Path, unused_ports: list[int], authority: LinkAuthority
) -> None:
    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        seen = bytearray()

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while piece := await source.read(65536):
                seen.extend(piece)
                sink.write(piece)
            sink.close()

        async def tap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", unused_ports[0])
            await asyncio.gather(pump(reader, back), pump(there, writer))

        async with await asyncio.start_server(tap, "127.0.0.1", unused_ports[2]):
            await stage.start(A, tls=authority.issue("a"), knows=())
            wire = f"127.0.0.1:{unused_ports[2]}"
            b = await stage.start(B, tls=authority.issue("b"), address_of=lambda member: wire)
            await stage.connected()
            assert b.send(Node(A), ("a well known word",))
            await reached(lambda: stage.ears[A].heard == [("a well known word",)])
            assert len(seen) > 1000
            for word in (b"well known", b"groupd-raft", b"partition-3"):
                assert word not in seen
            await stage.close()

    play(scene)


def test_a_certificate_of_another_authority_is_refused_by_both(
    tmp_path: Path,
    unused_ports: list[int],
    authority: LinkAuthority,
    stranger: LinkAuthority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        await stage.start(A, tls=authority.issue("a"))
        await stage.start(B, tls=stranger.issue("b"))
        not_ours = "its certificate is not from this tier's authority or not valid"
        await reached(lambda: f"{A}: link with {B} at 127.0.0.1 closed: {not_ours}" in caplog.text)
        await reached(lambda: f"{B}: link with {A} at 127.0.0.1 closed: {not_ours}" in caplog.text)
        await reached(
            lambda: "an unknown process at 127.0.0.1 closed: it refused TLS with this" in caplog.text
        )
        assert stage.ears[A].story == stage.ears[B].story == []
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_only_the_caller_trusts_the_listener_then_the_listener_says_so(
    tmp_path: Path,
    unused_ports: list[int],
    authority: LinkAuthority,
    stranger: LinkAuthority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The caller shows another authority's certificate and would take ours."""

    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        await stage.start(A, tls=authority.issue("a"), knows=())
        await stage.start(B, tls=stranger.issue("b")._replace(ca_path=str(authority.path)))
        await reached(
            lambda: f"{A}: link with an unknown process at 127.0.0.1 closed: its cert" in caplog.text
        )
        await reached(
            lambda: f"{B}: link with {A} at 127.0.0.1 closed: it refused TLS with this" in caplog.text
        )
        assert stage.ears[A].story == []
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_who_shows_no_certificate_is_refused(
    tmp_path: Path, unused_ports: list[int], authority: LinkAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        await stage.start(A, tls=authority.issue("a"), knows=())
        context = ssl.create_default_context(cafile=str(authority.path))
        context.check_hostname = False
        _, writer = await asyncio.open_connection("127.0.0.1", unused_ports[0], ssl=context)
        await reached(lambda: "unknown process at 127.0.0.1 closed: it showed no certificate" in caplog.text)
        writer.transport.abort()
        assert stage.ears[A].story == []
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_plain_replica_and_one_with_tls_refuse_each_other(
    tmp_path: Path, unused_ports: list[int], authority: LinkAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        await stage.start(A, tls=authority.issue("a"))
        await stage.start(B)
        await reached(
            lambda: (
                f"{A}: link with an unknown process at 127.0.0.1 closed: it does not speak TLS,"
                in caplog.text
            )
        )
        await reached(
            lambda: (
                f"{B}: link with an unknown process at 127.0.0.1 closed: it speaks TLS, this" in caplog.text
            )
        )
        assert stage.ears[A].story == stage.ears[B].story == []
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_garbled_tls_proves_nothing_and_raises_nothing(
    tmp_path: Path, unused_ports: list[int], authority: LinkAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    """Callers send a real greeting with one bit changed, or bytes that only begin like one, and then end."""
    chance = random.Random(20)

    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        files = authority.issue("a")
        await stage.start(A, tls=files, knows=())
        for _ in range(150):
            said = bytearray(TlsStream(files.context(dials=True), dials=True).seal(b""))
            at = chance.randrange(len(said))
            said[at] ^= 1 << chance.randrange(8)
            if chance.random() < 0.3:
                said[5:] = chance.randbytes(len(said) - 5)
            reader, writer = await asyncio.open_connection("127.0.0.1", unused_ports[0])
            writer.write(said)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.transport.abort()
        assert stage.ears[A].story == []
        await stage.close()

    caplog.set_level(logging.ERROR)
    play(scene)


def test_a_byte_that_is_changed_on_the_way_closes_a_link_in_use(
    tmp_path: Path, unused_ports: list[int], authority: LinkAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        stage = on_tcp(tmp_path, unused_ports)
        flips = 0

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal flips
            while piece := await source.read(65536):
                flip, flips = min(flips, 1), 0
                sink.write(piece[:-1] + bytes([piece[-1] ^ flip]))
            sink.close()

        async def tap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", unused_ports[0])
            await asyncio.gather(pump(reader, back), pump(there, writer))

        async with await asyncio.start_server(tap, "127.0.0.1", unused_ports[2]):
            await stage.start(A, tls=authority.issue("a"), knows=())
            wire = f"127.0.0.1:{unused_ports[2]}"
            b = await stage.start(B, tls=authority.issue("b"), address_of=lambda member: wire)
            await stage.connected()
            flips = 1
            assert b.send(Node(A), ("commit",))
            await reached(
                lambda: f"link with {B} at 127.0.0.1 closed: TLS with it failed: decr" in caplog.text
            )
            await reached(lambda: stage.ears[A].story == [f"up {B}", f"down {B}", f"up {B}"])
            assert stage.ears[A].heard == []
            await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_unix_sockets_stay_plain(tmp_path: Path, authority: LinkAuthority) -> None:
    """A tier may keep some replicas on one node: file modes guard those links."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, tls=authority.issue("a"))
        b = await stage.start(B)
        await stage.connected()
        assert b.send(Node(A), ("plain",))
        await reached(lambda: stage.ears[A].heard == [("plain",)])
        await stage.close()

    play(scene)


def test_files_that_cannot_be_used_are_named(tmp_path: Path, authority: LinkAuthority) -> None:
    good = authority.issue("good")
    other = authority.issue("other")
    encrypted = str(tmp_path / "encrypted.key")
    openssl("ec", "-in", good.key_path, "-aes256", "-passout", "pass:word", "-out", encrypted)
    for wrong, expected in (
        (good._replace(certificate_path="/nowhere/a.pem"), "certificate /nowhere/a.pem with key "),
        (good._replace(key_path=other.key_path), "key values mismatch"),
        (good._replace(key_path=encrypted), "the key is encrypted; links need one that is not"),
        (good._replace(ca_path="/nowhere/ca.pem"), "authority /nowhere/ca.pem: "),
        (good._replace(ca_path=good.key_path), f"authority {good.key_path}: "),
    ):
        for dials in (True, False):
            with pytest.raises(TlsUnusable, match=expected):
                wrong.context(dials=dials)
