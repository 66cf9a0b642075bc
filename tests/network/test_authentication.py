"""Clients log in at a node's port: what a stranger may do, and for how long (KIP-43, KIP-368)."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from actors.catalog.headers import parse_header
from actors.ground.identity import identity_of
from actors.ground.image import MetadataImage
from actors.ground.spec import SASL_PLAINTEXT, BrokerSettings
from actors.network.connection import Connection
from actors.network.early import DISMISSAL_DELAY_S, Decision, EarlyConnection, Keep
from actors.network.early_authentication import EarlySasl
from actors.network.listener import Listener, PortSecurity
from actors.network.quota import ConnectionLimits, ConnectionQuota
from actors.network.table import ConnectionTable
from actors.network.wire import Closed, Wire
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.security.scram import SCRAM_SHA_256
from tests.network.conftest import Run
from tests.security.credentials import make_credential

ALICE = make_credential("alice", SCRAM_SHA_256, "secret", b"salt", 4096)
HEARTBEAT: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "m"}


class Door:
    """A listener that wants clients to log in; it then keeps them and answers every request alike."""

    def __init__(self, **settings: Any) -> None:
        spec = BrokerSettings(listener_security_protocol=SASL_PLAINTEXT, **settings)
        self.sasl = EarlySasl(spec)
        self.sasl.take(MetadataImage(credentials=(ALICE,)))
        limits = ConnectionLimits(first_frame_ms_max=300)
        self.quota = ConnectionQuota(limits)
        self.table = ConnectionTable(asyncio.get_running_loop(), limits, self.quota.gone)
        address = ("127.0.0.1", 0)
        security = PortSecurity(SASL_PLAINTEXT)
        self.listener = Listener(address, self.decide, self.table, self.quota, security)
        self.port = 0
        self.principals: list[str] = []

    async def __aenter__(self) -> Door:
        self.port = await self.listener.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.listener.close()
        self.table.close()

    def decide(self, early: EarlyConnection, frame: bytes) -> Decision:
        try:
            return Keep(self) if early.identity.principal else self.sasl.on_stranger(early, frame, self)
        except (MalformedRequest, UnsupportedRequest) as error:
            early.close(str(error))
            return b""

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        header, body_offset = parse_header(frame)
        answer = self.sasl.on_request(connection, header, frame, body_offset)
        if answer is not None:
            return answer
        self.principals.append(connection.identity.principal)
        return struct.pack(">iih", 6, header.correlation_id, 0)

    def on_more(self, connection: Connection) -> None:
        """Do nothing: no request of a connection waits."""

    def on_closed(self, connection: Connection) -> None:
        """Do nothing: a closed connection has nothing to give back."""


async def log_in(wire: Wire, password: str = "secret", version: int = 1) -> dict[str, Any]:
    shaken = await wire.call("sasl_handshake", 1, mechanism="PLAIN")
    assert shaken["error_code"] == 0
    token = f"\0alice\0{password}".encode()
    return await wire.call("sasl_authenticate", version, auth_bytes=token)


async def is_closed(wire: Wire) -> bool:
    try:
        await asyncio.wait_for(wire.read_frame(), 5)
    except Closed:
        return True
    return False


def test_a_client_that_logs_in_is_known_from_then_on(run: Run) -> None:
    async def story() -> None:
        async with Door() as door:
            wire = await Wire.connect("127.0.0.1", door.port)
            await wire.call("api_versions", 0)
            assert (await log_in(wire))["error_code"] == 0
            await wire.call("heartbeat", 0, **HEARTBEAT)
            assert door.principals == ["User:alice"]
            await wire.close()

    run(story())


def test_a_wrong_password_is_answered_after_a_while_and_hung_up_on(run: Run) -> None:
    async def story() -> None:
        async with Door() as door:
            wire = await Wire.connect("127.0.0.1", door.port)
            began = asyncio.get_running_loop().time()
            assert (await log_in(wire, "wrong"))["error_code"] == 58
            assert asyncio.get_running_loop().time() - began >= DISMISSAL_DELAY_S
            assert await is_closed(wire)
            assert door.quota.total == 0
            await wire.close()

    run(story())


def test_a_stranger_is_served_nothing_and_has_only_so_much_time(run: Run) -> None:
    async def story() -> None:
        async with Door() as door:
            asking = await Wire.connect("127.0.0.1", door.port)
            try:
                await asking.call("heartbeat", 0, **HEARTBEAT)
            except Closed:
                pass
            else:
                raise AssertionError("a stranger was served")
            waiting = await Wire.connect("127.0.0.1", door.port)
            await waiting.call("api_versions", 0)
            assert await is_closed(waiting)
            assert door.principals == []
            for wire in (asking, waiting):
                await wire.close()

    run(story())


def test_tokens_may_come_without_a_header_after_an_old_handshake(run: Run) -> None:
    async def story() -> None:
        async with Door() as door:
            wire = await Wire.connect("127.0.0.1", door.port)
            assert (await wire.call("sasl_handshake", 0, mechanism="PLAIN"))["error_code"] == 0
            token = b"\0alice\0secret"
            await wire.send_raw(len(token).to_bytes(4, "big") + token)
            assert await wire.read_frame() == b""
            await wire.call("heartbeat", 0, **HEARTBEAT)
            assert door.principals == ["User:alice"]
            await wire.close()

    run(story())


def test_a_session_ends_unless_the_client_logs_in_again(run: Run) -> None:
    """KIP-368: here the session lasts half a second."""

    async def story() -> None:
        async with Door(connections_max_reauth_ms=500) as door:
            wire = await Wire.connect("127.0.0.1", door.port)
            assert (await log_in(wire))["session_lifetime"] == 500
            for _ in range(2):
                await wire.call("heartbeat", 0, **HEARTBEAT)
                assert (await log_in(wire))["error_code"] == 0
            ends = asyncio.get_running_loop().time() + 5
            with_reason = False
            while asyncio.get_running_loop().time() < ends and not with_reason:
                try:
                    await wire.call("heartbeat", 0, **HEARTBEAT)
                except Closed:
                    with_reason = True
            assert with_reason
            assert set(door.principals) == {"User:alice"}
            await wire.close()

    run(story())


def test_only_a_listener_without_sasl_knows_its_clients_at_once() -> None:
    assert identity_of(("127.0.0.1", 1)).principal == "User:ANONYMOUS"
    assert identity_of(("127.0.0.1", 1), SASL_PLAINTEXT).principal == ""
