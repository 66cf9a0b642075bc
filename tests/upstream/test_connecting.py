"""Actors connect to the upstream cluster, and ask which versions its brokers offer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.login import Login
from actors.protocol import api_keys
from actors.upstream import connecting
from tests.authority import Authority
from tests.upstream.scripted_leader import APIS, ScriptedLeader
from tests.upstream.speaking_broker import SpeakingBroker


def test_who_connects_knows_which_versions_are_offered() -> None:
    async def story() -> None:
        async with ScriptedLeader().listening() as leader:
            wire, versions = await connecting.connector("story")(leader.address)
            assert versions == {key: (least, most) for key, (_, least, most) in APIS.items()}
            await wire.close()

    asyncio.run(story())


def test_a_server_that_hangs_up_is_no_kafka() -> None:
    async def story() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            with pytest.raises(connecting.NotUnderstood):
                await connecting.connector("story")(server.sockets[0].getsockname()[:2])

    asyncio.run(story())


def test_nobody_is_waited_for_who_does_not_answer() -> None:
    async def story() -> None:
        async with ScriptedLeader().listening() as leader:
            leader.is_frozen = True
            wire = await connecting.Wire.connect(*leader.address)
            with pytest.raises(TimeoutError):
                await connecting.offered(wire, timeout_s=0.05)
            await wire.close()

    asyncio.run(story())


class LoggingIn(SpeakingBroker):
    """A broker that lets everybody in by PLAIN, for as long as a story says."""

    apis: ClassVar[Mapping[int, tuple[str, int, int]]] = {
        **SpeakingBroker.apis,
        api_keys.SASL_HANDSHAKE: ("sasl_handshake", 0, 1),
        api_keys.SASL_AUTHENTICATE: ("sasl_authenticate", 0, 1),
    }

    def __init__(self, lifetime_ms: int = 0) -> None:
        super().__init__(7)
        self.lifetime_ms = lifetime_ms
        self.tokens: list[bytes] = []

    async def _sasl_handshake(self, asked: Any) -> dict[str, Any]:
        return {"error_code": ErrorCode.none, "mechanisms": [asked["mechanism"]]}

    async def _sasl_authenticate(self, asked: Any) -> dict[str, Any]:
        self.tokens.append(asked["auth_bytes"])
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "auth_bytes": b"",
            "session_lifetime": self.lifetime_ms,
        }


LOGIN = Login(mechanism="PLAIN", user="tier", password="secret")


def test_an_authentication_that_ends_is_renewed_before_the_next_request() -> None:
    async def story() -> None:
        async with LoggingIn(lifetime_ms=40).listening() as broker:
            wire, _ = await connecting.connector("story", LOGIN)(broker.address)
            assert broker.tokens == [b"\0tier\0secret"]

            async def renewed() -> bool:
                await connecting.offered(wire)
                return len(broker.tokens) > 2

            while not await renewed():
                await asyncio.sleep(0.01)
            await wire.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_tls_is_spoken_with_who_is_trusted(tmp_path: Path) -> None:
    async def story() -> None:
        authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
        issued = authority.certify("broker")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(issued.certificate, issued.key)
        async with LoggingIn().listening(tls) as broker:
            trusting = LOGIN._replace(is_encrypted=True, ca=str(authority.path))
            wire, _ = await connecting.connector("story", trusting)(broker.address)
            assert broker.tokens == [b"\0tier\0secret"]
            await wire.close()
            for login in (trusting._replace(ca=str(other.path)), trusting._replace(ca=str(tmp_path / "no"))):
                with pytest.raises(OSError, match=r"certificate verify failed|No such file"):
                    await connecting.connector("story", login)(broker.address)
            assert len(broker.tokens) == 1, "no password is told to anybody else"

    asyncio.run(story())


def test_files_of_tls_that_were_renewed_count_for_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is of no use leaves what was read before."""

    async def story() -> None:
        authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
        trusted = tmp_path / "trusted.pem"
        trusted.write_text(other.path.read_text())
        issued = authority.certify("broker")
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(issued.certificate, issued.key)
        async with LoggingIn().listening(tls) as broker:
            connect = connecting.connector("story", LOGIN._replace(is_encrypted=True, ca=str(trusted)))
            with pytest.raises(OSError, match="certificate verify failed"):
                await connect(broker.address)
            for content in (authority.path.read_text(), "nothing"):
                trusted.write_text(content)
                wire, _ = await connect(broker.address)
                await wire.close()
            trusted.unlink()
            wire, _ = await connect(broker.address)
            await wire.close()

    asyncio.run(story())
    assert "what was read goes on" in caplog.text
