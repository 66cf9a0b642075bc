"""What the tests of links share: transports that note what they are told, and a peer that keeps to a
script."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Self

import msgpack
import uvloop

from storage.raft.errors import BadMessage
from storage.raft.handshake import Handshake, LinkIdentity
from storage.raft.members import Member, Members
from storage.raft.skeleton import Node
from storage.raft.transport import PeerTransport
from tests.polling import reached

DEADLINE_S = 10.0
SECRET = b"one secret"
A, B = "0.1", "1.1"
"""The ids of two members, the lesser and the greater."""


def identity(member_id: str, *, tier_id: str = "tier", group: str = "partition-3") -> LinkIdentity:
    return LinkIdentity(tier_id, group, member_id)


def members(ids: Iterable[str]) -> Members:
    return tuple(Member(member_id, 0, True) for member_id in sorted(ids))


class Ear:
    """Takes Raft's place behind a transport, and notes what it is told."""

    def __init__(self, transport: PeerTransport) -> None:
        self.heard: list[Any] = []
        self.story: list[str] = []
        base: Any = transport  # pysyncobj's setters, as Raft's constructor calls them
        base.setOnMessageReceivedCallback(self._message)
        base.setOnNodeConnectedCallback(lambda node: self.story.append(f"up {node.id}"))
        base.setOnNodeDisconnectedCallback(lambda node: self.story.append(f"down {node.id}"))
        transport.on_peer_lost = lambda peer_id: self.story.append(f"lost {peer_id}")

    @property
    def connected_ids(self) -> tuple[str, ...]:
        """The peers with a link now, as the transport told."""
        latest: dict[str, str] = {}
        for told in self.story:
            word, peer_id = told.split()
            if word != "lost":
                latest[peer_id] = word
        return tuple(sorted(peer_id for peer_id, word in latest.items() if word == "up"))

    def _message(self, _node: Node, message: Any) -> None:
        if message == ("bad",):
            raise BadMessage("a bad message")
        self.heard.append(message)


class Stage:
    """Replicas on Unix sockets: A and B unless a test has others. A replica that starts knows all of them."""

    def __init__(self, directory: Path, *ids: str) -> None:
        self.addresses = {each: f"unix:{directory}/{each}" for each in ids or (A, B)}
        self.transports: dict[str, PeerTransport] = {}
        self.ears: dict[str, Ear] = {}
        self.activity = 0
        self.raised: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.raised.append(context))

    async def start(
        self, self_id: str, *, secret: bytes = SECRET, knows: Iterable[str] | None = None, **options: Any
    ) -> PeerTransport:
        transport = PeerTransport(
            asyncio.get_running_loop(),
            options.pop("identity", identity(self_id)),
            self.addresses[self_id],
            options.pop("address_of", lambda member: self.addresses[member.member_id]),
            secret,
            self._on_activity,
            **options,
        )
        self.transports[self_id] = transport
        self.ears[self_id] = Ear(transport)
        transport.set_members(members(self.addresses if knows is None else (*knows, self_id)))
        await transport.start()
        return transport

    def _on_activity(self) -> None:
        self.activity += 1

    async def connected(self) -> None:
        await reached(lambda: all(each.connected_ids for each in self.ears.values()))

    async def close(self) -> None:
        for transport in self.transports.values():
            await transport.close()
        assert self.raised == []


def play(scene: Callable[[], Coroutine[Any, Any, None]], *, uv: bool = False) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uv else None) as runner:
        runner.run(scene())


def framed(message: Any) -> bytes:
    body: bytes = msgpack.packb(message)
    return len(body).to_bytes(4, "big") + body


class Wire:
    """One connection of a scripted peer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.handshake: Handshake | None = None

    @classmethod
    async def open(cls, address: str) -> Self:
        return cls(*await asyncio.open_unix_connection(address.removeprefix("unix:")))

    @classmethod
    async def call(cls, stage: Stage, own: LinkIdentity, to: str, secret: bytes = SECRET) -> Self:
        """Call a replica and send the opening of a handshake."""
        wire = await cls.open(stage.addresses[to])
        wire.handshake = Handshake(own, secret, to, _anybody)
        wire.send(wire.handshake.opening())
        return wire

    def send(self, message: Any) -> None:
        self._writer.write(framed(message))

    def write(self, noise: bytes) -> None:
        self._writer.write(noise)

    def end(self) -> None:
        """End the sending; an answer can still be read."""
        self._writer.write_eof()

    async def read(self, deadline_s: float = DEADLINE_S) -> Any:
        """Read one message; None at the end. Raises TimeoutError."""
        async with asyncio.timeout(deadline_s):
            try:
                length = await self._reader.readexactly(4)
                body = await self._reader.readexactly(int.from_bytes(length, "big"))
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
        return msgpack.unpackb(body, use_list=False)

    def is_hung_up(self) -> bool:
        """Whether this end could see, right now, that the other has closed."""
        poll = select.poll()
        poll.register(self._writer.get_extra_info("socket").fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))

    async def answer(self) -> bool:
        """Take the next message of the handshake and answer it; False if there is none."""
        message = await self.read()
        if message is None:
            return False
        assert self.handshake is not None, "whoever calls or accepts sets it"
        reply = self.handshake.step(message)
        if reply is not None:
            self.send(reply)
        return True

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


class Port:
    """The address at which a scripted peer is called; it answers only when the script says so."""

    def __init__(self, own: LinkIdentity, address: str) -> None:
        self._own = own
        self._path = address.removeprefix("unix:")
        self._calls: asyncio.Queue[Wire] = asyncio.Queue()
        self._wires: list[Wire] = []

    async def open(self) -> Self:
        self._server = await asyncio.start_unix_server(self._called, self._path)
        return self

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        wire.handshake = Handshake(self._own, SECRET, None, _anybody)
        self._wires.append(wire)
        self._calls.put_nowait(wire)

    async def called(self) -> Wire:
        async with asyncio.timeout(DEADLINE_S):
            return await self._calls.get()

    async def close(self) -> None:
        """Hang up on all callers, in the middle of the script too: a socket left open fails another test."""
        self._server.close()
        for wire in self._wires:
            await wire.close()


def _anybody(peer_id: str, nonce: bytes) -> None:
    """Let any peer in that has the secret."""
