"""Raft links over asyncio: one connection per pair of replicas, msgpack frames, mutual proof of identity.

    frame = length of body (4, big-endian) | body (msgpack)

The replica with the greater id dials; a replica that listens again is reached within about 100 ms. Frames
and queues are bounded: a peer that does not read loses its connection, and Raft repairs what was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import stat
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

import msgpack

from storage.errors import BadMessage
from storage.handshake import Handshake, Refused
from storage.skeleton import Node, RaftTransport

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUE_BYTES_MAX: Final = 128 * 1024 * 1024
HANDSHAKE_FRAME_BYTES_MAX: Final = 1024
HANDSHAKE_TIMEOUT_S: Final = 2.0
UNPROVEN_LINKS_MAX: Final = 64
REDIAL_S: Final = (0.03, 0.08)
"""Between two attempts: random within this, so that two replicas do not stay in step."""
REFUSED_REDIAL_MAX_S: Final = 2.0
DEAD_LINK_TIMEOUT_MS: Final = 5_000
"""Sent and not acknowledged by the peer's kernel (TCP_USER_TIMEOUT): else a link that was cut for long
would come back only at the pace of TCP's own retries."""
REMARKS_MAX: Final = 1_000

log = logging.getLogger(__name__)


class LinkFaults(Protocol):
    """What a test or a chaos run may do to messages that leave."""

    def delay_s(self, peer_id: str) -> float | None:
        """Seconds by which the next message to the peer is late (order is kept); None: it is lost."""


class PeerTransport(RaftTransport):
    """The links of one replica. All methods belong to the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        self_id: str,
        listen_address: str,
        peers: dict[str, str],
        secret: bytes,
        on_activity: Callable[[], None],
        *,
        faults: LinkFaults | None = None,
    ) -> None:
        """`peers` maps ids to addresses, "unix:<path>" or "host:port". `on_activity` is called after
        messages were handled or a link came or went, once for all that one read brought."""
        super().__init__(None, None, [])
        self.self_id = self_id
        self.on_activity = on_activity
        self._loop = loop
        self._listen_address = listen_address
        self._peers = dict(sorted(peers.items()))
        self._secret = secret
        self._faults = faults
        self._nodes = {peer_id: Node(peer_id) for peer_id in self._peers}
        self._links: dict[str, _Link] = {}
        self._unproven: set[_Link] = set()
        self._server: asyncio.AbstractServer | None = None
        self._dialers: list[asyncio.Task[None]] = []
        self._making: set[asyncio.Task[None]] = set()
        self._remarks: set[tuple[str | None, str]] = set()
        self._packer = msgpack.Packer()
        self._closed = False

    async def start(self) -> None:
        """Listen, and begin to dial. Raises OSError when the address cannot be listened on."""
        kind, host, port = _parse(self._listen_address)
        if kind == "unix":
            _remove_stale_socket(host)
            self._server = await self._loop.create_unix_server(lambda: _Link(self, None), path=host)
        else:
            self._server = await self._loop.create_server(lambda: _Link(self, None), host, port)
        self._dialers = [
            self._loop.create_task(self._dial(peer_id, address), name=f"dial {peer_id}")
            for peer_id, address in self._peers.items()
            if self.self_id > peer_id
        ]

    @property
    def connected_ids(self) -> tuple[str, ...]:
        return tuple(sorted(self._links))

    def send(self, node: Node, message: Any) -> bool:
        """False if it surely was not sent."""
        link = self._links.get(node.id)
        if link is None:
            return False
        body = self._packer.pack(message)
        assert len(body) <= FRAME_BYTES_MAX, "the settings keep a message below a frame"
        if self._faults is not None:
            delay_s = self._faults.delay_s(node.id)
            if delay_s is None:
                return True
            return link.write_later(body, delay_s)
        return link.write(body)

    def destroy(self) -> None:
        """Close everything at once. Called by Raft when it is closed."""
        if self._closed:
            return
        self._closed = True
        self.on_activity = _nothing
        for dialer in self._dialers:
            dialer.cancel()
        if self._server is not None:
            self._server.close()
        for link in (*self._links.values(), *self._unproven):
            link.end()
        self._links.clear()
        self._unproven.clear()

    async def close(self) -> None:
        """`destroy`, and wait until everything has ended."""
        self.destroy()
        await asyncio.gather(*self._dialers, *self._making, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        await asyncio.sleep(0)  # the loop closes the sockets of ended links in its next iteration

    # -- dialling -----------------------------------------------------------------------------------

    async def _dial(self, peer_id: str, address: str) -> None:
        refused_s = REDIAL_S[1]
        while not self._closed:
            link = _Link(self, peer_id)
            delay_s = random.uniform(*REDIAL_S)
            try:
                await self._connect(link, address)
            except OSError:  # nobody listens, or not in time: the common case while a peer is down
                link.end()
            await link.ended.wait()
            if link.was_proven:
                refused_s = REDIAL_S[1]
            elif link.was_made:
                refused_s = min(refused_s * 2, REFUSED_REDIAL_MAX_S)
                delay_s = random.uniform(refused_s / 2, refused_s)
            await asyncio.sleep(delay_s)

    async def _connect(self, link: _Link, address: str) -> None:
        """Raises OSError. Connects a plain socket first: that can be given up at any moment, while a
        transport that is cancelled half made may (uvloop) never tell its protocol that it has ended."""
        kind, host, port = _parse(address)
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            if kind == "unix":
                connection = await self._connected_socket(socket.AF_UNIX, host)
            else:
                found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                connection = await self._connected_socket(found[0][0], found[0][4])
        making = self._loop.create_task(self._make(link, connection, kind))
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        await asyncio.shield(making)

    async def _connected_socket(self, family: int, address: Any) -> socket.socket:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await self._loop.sock_connect(connection, address)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _make(self, link: _Link, connection: socket.socket, kind: str) -> None:
        try:
            if kind == "unix":
                await self._loop.create_unix_connection(lambda: link, sock=connection)
            else:
                await self._loop.create_connection(lambda: link, sock=connection)
        except OSError:
            link.end()
        if not link.was_made:
            link.end()

    # -- called by links ----------------------------------------------------------------------------

    def handshake(self, dial: str | None) -> Handshake:
        return Handshake(self.self_id, self._secret, frozenset(self._peers), dial)

    def admit(self, link: _Link) -> bool:
        """Whether one more link may try to prove itself."""
        if self._closed or len(self._unproven) >= UNPROVEN_LINKS_MAX:
            return False
        self._unproven.add(link)
        return True

    def proven(self, link: _Link, peer_id: str) -> None:
        """The link takes the place of an older one with the same peer."""
        self._unproven.discard(link)
        if (old := self._links.get(peer_id)) is not None:
            self.drop(old)
        self._links[peer_id] = link
        self._remarks = {remark for remark in self._remarks if remark[0] != peer_id}
        self._connected(self._nodes[peer_id])
        self.on_activity()

    def received(self, peer_id: str, message: Any) -> None:
        """Raises BadMessage."""
        self._arrived(self._nodes[peer_id], message)

    def drop(self, link: _Link, reason: str | None = None) -> None:
        """Hang up. Raft is told before the peer can see it: a leader must forget what the peer granted."""
        if reason is not None:
            self.remark(link.peer_id, reason)
        self.lost(link, closed_by_host=False)
        link.end()

    def ended(self, link: _Link) -> None:
        self._unproven.discard(link)

    def lost(self, link: _Link, *, closed_by_host: bool) -> None:
        peer_id = link.peer_id
        if peer_id is None or self._links.get(peer_id) is not link:
            return
        del self._links[peer_id]
        self._disconnected(self._nodes[peer_id])
        if closed_by_host and self.on_peer_lost is not None:
            self.on_peer_lost(peer_id)
        self.on_activity()

    def remark(self, peer_id: str | None, reason: str) -> None:
        """One log line per peer and reason, until that peer has been connected again."""
        if (peer_id, reason) not in self._remarks and len(self._remarks) < REMARKS_MAX:
            self._remarks.add((peer_id, reason))
            log.warning("%s: link with %s closed: %s", self.self_id, peer_id or "an unknown host", reason)


class _Link(asyncio.Protocol):
    """One connection, from its handshake to its end."""

    def __init__(self, owner: PeerTransport, dial: str | None) -> None:
        self.peer_id: str | None = None
        self.was_made = False
        self.was_proven = False
        self.ended = asyncio.Event()
        self._owner = owner
        self._dial = dial
        self._handshake: Handshake | None = owner.handshake(dial)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._buffer = bytearray()
        self._needed = 4
        self._host_closed = False
        self._late_until = 0.0

    # -- asyncio ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.was_made = True
        if self.ended.is_set() or not self._owner.admit(self):
            self.end()
            return
        _tune(transport.get_extra_info("socket"))
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_TIMEOUT_S, self._too_slow)
        if self._dial is not None and self._handshake is not None:
            self.write(msgpack.packb(self._handshake.opening()))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < self._needed:
            return
        handled = False
        try:
            while (message := self._next_frame()) is not None:
                handled = self._take(message) or handled
        except BadMessage as error:
            self._owner.drop(self, str(error))
        except Refused as refused:
            claimed = self._handshake.claimed_id if self._handshake is not None else None
            self._owner.remark(claimed, str(refused))
            self.end()
        if handled:
            self._owner.on_activity()

    def eof_received(self) -> bool:
        self._host_closed = True
        return False

    def connection_lost(self, error: Exception | None) -> None:
        # A process that is killed with unread bytes in its sockets resets its connections.
        closed = self._host_closed or isinstance(error, ConnectionResetError | BrokenPipeError)
        self._owner.lost(self, closed_by_host=closed)
        self.end()

    # -- frames -------------------------------------------------------------------------------------

    def write(self, body: bytes) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() + len(body) > QUEUE_BYTES_MAX:
            self._owner.drop(self, f"more than {QUEUE_BYTES_MAX} bytes are not read")
            return False
        transport.write(len(body).to_bytes(4, "big") + body)
        return True

    def write_later(self, body: bytes, delay_s: float) -> bool:
        """Only for injected faults."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if delay_s <= 0 and self._late_until <= now:
            return self.write(body)
        self._late_until = max(now + delay_s, self._late_until + 1e-6)
        loop.call_at(self._late_until, self.write, body)
        return True

    def end(self) -> None:
        """For good and at once: nothing here waits for the transport to say so. May be called again."""
        self._owner.ended(self)
        if self._deadline is not None:
            self._deadline.cancel()
        transport, self._transport = self._transport, None
        self.ended.set()
        if transport is not None:
            transport.abort()

    def _next_frame(self) -> Any | None:
        buffer = self._buffer
        if len(buffer) < 4 or self._transport is None or self._transport.is_closing():
            return None
        length = int.from_bytes(buffer[:4], "big")
        limit = FRAME_BYTES_MAX if self._handshake is None else HANDSHAKE_FRAME_BYTES_MAX
        if length > limit:
            raise BadMessage(f"a frame of {length} bytes, at most {limit} are allowed")
        if len(buffer) < 4 + length:
            self._needed = 4 + length
            return None
        try:
            with memoryview(buffer) as view, view[4 : 4 + length] as body:
                message = msgpack.unpackb(body, use_list=False)
        except (ValueError, msgpack.UnpackException) as error:
            raise BadMessage(f"a frame that is not msgpack: {error!r}") from None
        del buffer[: 4 + length]
        self._needed = 4
        if message is None:
            raise BadMessage("an empty frame")
        return message

    def _take(self, message: Any) -> bool:
        """True if it was for Raft."""
        if self._handshake is None:
            assert self.peer_id is not None
            self._owner.received(self.peer_id, message)
            return True
        answer = self._handshake.step(message)
        if answer is not None:
            self.write(msgpack.packb(answer))
        if self._handshake.peer_id is not None:
            self.peer_id = self._handshake.peer_id
            self._handshake = None
            self.was_proven = True
            if self._deadline is not None:
                self._deadline.cancel()
            self._owner.proven(self, self.peer_id)
        return False

    def _too_slow(self) -> None:
        claimed = self._handshake.claimed_id if self._handshake is not None else None
        self._owner.remark(claimed, f"no proof of identity within {HANDSHAKE_TIMEOUT_S} s")
        self.end()


def _nothing() -> None:
    """In place of a host that has gone."""


def _parse(address: str) -> tuple[str, str, int]:
    if address.startswith("unix:"):
        return "unix", address.removeprefix("unix:"), 0
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"address {address!r} is neither unix:<path> nor <host>:<port>")
    return "tcp", host.strip("[]"), int(port)


def _remove_stale_socket(path: str) -> None:
    """What a killed process left. Two live ones cannot meet here: the journal's directory is locked."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)


def _tune(connection: Any) -> None:
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_LINK_TIMEOUT_MS)
