"""Raft links over an asyncio loop: one connection per pair of replicas, msgpack frames, mutual proof.

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
from typing import Any, Final, Protocol

import msgpack

from storage.handshake import Handshake
from storage.link import FRAME_BYTES_MAX, HANDSHAKE_TIMEOUT_S, Link
from storage.skeleton import Node, RaftTransport

UNPROVEN_LINKS_MAX: Final = 64
REDIAL_S: Final = (0.03, 0.08)
"""Between two attempts: random within this, so that two replicas do not stay in step."""
REFUSED_REDIAL_MAX_S: Final = 2.0
BACKLOG: Final = 128
ACCEPT_PAUSE_S: Final = 0.1
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
        self._on_activity = on_activity
        self._loop = loop
        self._listen_address = listen_address
        self._peers = dict(sorted(peers.items()))
        self._secret = secret
        self._faults = faults
        self._nodes = {peer_id: Node(peer_id) for peer_id in self._peers}
        self._links: dict[str, Link] = {}
        self._unproven: set[Link] = set()
        self._listener: socket.socket | None = None
        self._dialers: list[asyncio.Task[None]] = []
        self._remarks: set[tuple[str | None, str]] = set()
        self._packer = msgpack.Packer()
        self._closed = False

    async def start(self) -> None:
        """Listen, and begin to dial. Raises OSError when the address cannot be listened on."""
        family, address = await self._resolve(self._listen_address)
        if family == socket.AF_UNIX:
            _remove_stale_socket(address)
        self._listener = _listen(family, address)
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._dialers = [
            self._loop.create_task(self._dial(peer_id, peer_address), name=f"dial {peer_id}")
            for peer_id, peer_address in self._peers.items()
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
            return delay_s is None or link.write_later(body, delay_s)
        return link.write(body)

    def destroy(self) -> None:
        """Close everything at once. Called by Raft when it is closed."""
        if self._closed:
            return
        self._closed = True
        for dialer in self._dialers:
            dialer.cancel()
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
        for link in (*self._links.values(), *self._unproven):
            link.end()
        self._links.clear()
        self._unproven.clear()

    async def close(self) -> None:
        """`destroy`, and wait until the dialling has ended."""
        self.destroy()
        await asyncio.gather(*self._dialers, return_exceptions=True)

    # -- connecting ---------------------------------------------------------------------------------

    async def _resolve(self, address: str) -> tuple[int, Any]:
        """Raises ValueError, OSError."""
        if address.startswith("unix:"):
            return socket.AF_UNIX, address.removeprefix("unix:")
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdecimal():
            raise ValueError(f"address {address!r} is neither unix:<path> nor <host>:<port>")
        found = await self._loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        return found[0][0], found[0][4]

    async def _dial(self, peer_id: str, address: str) -> None:
        refused_s = REDIAL_S[1]
        while True:
            delay_s = random.uniform(*REDIAL_S)
            with contextlib.suppress(OSError):  # nobody listens, or not in time: usual while a peer is down
                connection = await self._connect(address)
                link = self._begin(connection, peer_id)
                await link.ended.wait()
                if link.peer_id is not None:
                    refused_s = REDIAL_S[1]
                else:
                    refused_s = min(refused_s * 2, REFUSED_REDIAL_MAX_S)
                    delay_s = random.uniform(refused_s / 2, refused_s)
            await asyncio.sleep(delay_s)

    async def _connect(self, address: str) -> socket.socket:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            family, target = await self._resolve(address)
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                await self._loop.sock_connect(connection, target)
            except BaseException:
                connection.close()
                raise
        return connection

    def _accept(self) -> None:
        assert self._listener is not None, "its reader is removed before it is closed"
        try:
            connection, _ = self._listener.accept()
            if len(self._unproven) >= UNPROVEN_LINKS_MAX:
                connection.close()
            else:
                self._begin(connection, None)
        except (BlockingIOError, ConnectionError):  # gone again already
            return
        except OSError as error:
            # No descriptor is left, most likely: asking again at once would only burn the processor.
            self._remark(None, f"accept failed: {error}")
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(ACCEPT_PAUSE_S, self._listen_again)

    def _listen_again(self) -> None:
        if self._listener is not None and not self._closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _begin(self, connection: socket.socket, dial: str | None) -> Link:
        """Raises OSError when the connection has broken meanwhile."""
        handshake = Handshake(self.self_id, self._secret, frozenset(self._peers), dial)
        try:
            link = Link(self, self._loop, connection, handshake)
        except OSError:
            connection.close()
            raise
        self._unproven.add(link)
        return link

    # -- called by links ----------------------------------------------------------------------------

    def proven(self, link: Link, peer_id: str) -> None:
        """The link takes the place of an older one with the same peer."""
        self._unproven.discard(link)
        if (old := self._links.get(peer_id)) is not None:
            self._drop(old)
        self._links[peer_id] = link
        self._remarks = {remark for remark in self._remarks if remark[0] != peer_id}
        self._connected(self._nodes[peer_id])
        self.activity()

    def received(self, peer_id: str, message: Any) -> None:
        self._arrived(self._nodes[peer_id], message)

    def activity(self) -> None:
        if not self._closed:
            self._on_activity()

    def refused(self, link: Link, peer_id: str | None, reason: str) -> None:
        self._remark(peer_id, reason)
        self._drop(link)

    def lost(self, link: Link, *, closed_by_host: bool) -> None:
        peer_id = self._drop(link)
        if peer_id is not None and closed_by_host and self.on_peer_lost is not None:
            self.on_peer_lost(peer_id)
            self.activity()

    def _drop(self, link: Link) -> str | None:
        """End the link; its peer's id if it was the one in use. Raft is told before the peer can see it: a
        leader must forget what the peer granted."""
        self._unproven.discard(link)
        peer_id = link.peer_id
        used = peer_id is not None and self._links.get(peer_id) is link
        if peer_id is not None and used:
            del self._links[peer_id]
            self._disconnected(self._nodes[peer_id])
        link.end()
        if not used:
            return None
        self.activity()
        return peer_id

    def _remark(self, peer_id: str | None, reason: str) -> None:
        """One log line per peer and reason, until that peer has been connected again."""
        if (peer_id, reason) not in self._remarks and len(self._remarks) < REMARKS_MAX:
            self._remarks.add((peer_id, reason))
            log.warning("%s: link with %s closed: %s", self.self_id, peer_id or "an unknown host", reason)


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_stale_socket(path: str) -> None:
    """What a killed process left. Two live ones cannot meet here: the journal's directory is locked."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
