"""Raft links over an asyncio loop: one connection per pair of replicas, msgpack frames, mutual proof.

    frame = length of body (4, big-endian) | body (msgpack)

Everybody calls every member with whom no link is in use: the greater id after 30 to 80 ms, the lesser only
after about 0.3 s, so that one side calls as a rule, yet whoever is known to only one side is called too.
If both call at once, the link dialled by the greater id stays:

- called while our own call has not been answered: the greater hangs up on the caller, the lesser on its own
  call, both before anything is proven; the greater, too, takes the caller's if its own is old (CROSSING_S);
- answered, and a link has come into use meanwhile: we hang up;
- called although a link is in use: the caller has lost it (it would not call else), so the new link takes its
  place, unless we are the greater and dialled it less than CROSSING_S ago: the caller has not seen it yet.

Frames and queues are bounded: a peer that does not read loses its connection, and Raft repairs what was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgpack

from storage.raft.addresses import listen, resolve
from storage.raft.handshake import Crossed, Handshake, LinkIdentity, Refused
from storage.raft.link import FRAME_BYTES_MAX, HANDSHAKE_TIMEOUT_S, Link
from storage.raft.members import MEMBERS_MAX, Member, Members
from storage.raft.roster import Roster
from storage.raft.skeleton import Node, RaftTransport
from storage.raft.tls import LinkTls, TlsStream

__all__ = ["LinkFaults", "LinkIdentity", "LinkTls", "PeerTransport"]

LINKS_MAX: Final = MEMBERS_MAX + 5
"""The most links that are proven. Members are never refused for it; the rest is for newcomers, and for
leaders not heard of yet."""
UNPROVEN_LINKS_MAX: Final = 64
REDIAL_S: Final = (0.03, 0.08)
"""How long, in seconds, a replica waits between two attempts: drawn anew, so that two do not stay in step."""
LESSER_REDIAL_S: Final = (0.25, 0.35)
REFUSED_REDIAL_MAX_S: Final = 2.0
CROSSING_S: Final = 1.0
"""How long, in seconds, a call is waited for: a handshake between hosts that are well takes less."""
LEAVING_GRACE_S: Final = 1.0
"""How long, in seconds, a link with a member that has left goes on: the entry that says so may still have to
reach it, and if that entry is taken back nothing has happened."""
ACCEPT_PAUSE_S: Final = 0.1
REMARKS_MAX: Final = 1_000
NONCES_MAX: Final = 256

log = logging.getLogger(__name__)


class LinkFaults(Protocol):
    """What a test or a chaos run may do to messages that leave."""

    def delay_s(self, peer_id: str) -> float | None:
        """Return by how many seconds the next message to the peer is late (order is kept); None if it is
        lost."""


class PeerTransport(RaftTransport):
    """The links of one replica. All methods belong to the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        identity: LinkIdentity,
        listen_address: str,
        address_of: Callable[[Member], str],
        secret: bytes,
        on_activity: Callable[[], None],
        *,
        tls: LinkTls | None = None,
        faults: LinkFaults | None = None,
    ) -> None:
        """Make the links of a replica. Addresses are "unix:<path>" or "host:port"; `address_of` is asked anew
        for each call and may raise LookupError or ValueError. `on_activity` is called after messages were
        handled or a link came or went, once for all that one read brought, but not for messages after which
        there is nothing left to do. `tls` is for TCP links; Unix
        sockets are guarded by file modes. Raises TlsUnusable."""
        super().__init__(None, None, [])
        self.self_id = identity.member_id
        self._identity = identity
        self.on_activity = on_activity
        self._loop = loop
        self._listen_address = listen_address
        self._address_of = address_of
        self._secret = secret
        self._tls: dict[bool, ssl.SSLContext] | None = None
        if tls is not None:
            self._tls = {dials: tls.context(dials=dials) for dials in (True, False)}
        self._faults = faults
        self._roster = Roster(self.self_id)
        self._nodes: dict[str, Node] = {}
        self._links: dict[str, Link] = {}
        self._calls: dict[str, Link] = {}
        """The links that we dialled and that are not proven yet; they are in `_unproven` too."""
        self._unproven: set[Link] = set()
        self._nonces: deque[bytes] = deque(maxlen=NONCES_MAX)
        """The nonces of callers: a recorded handshake is known again (its proof would not fit either)."""
        self._listener: socket.socket | None = None
        self._dialers: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._remarks: set[tuple[str | None, str]] = set()
        self._packer = msgpack.Packer()
        self._packed_message: Any = None
        """The last message that was packed: what goes to several peers is one object."""
        self._packed_body = b""
        self._taken = 0
        """How many messages were taken from links that have ended."""
        self._closed = False

    async def start(self) -> None:
        """Listen, and begin to dial. Raises OSError when the address cannot be listened on, ValueError when
        it is none."""
        self._listener = listen(*await resolve(self._loop, self._listen_address))
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._dial_peers()

    def set_members(self, members: Members) -> None:
        """Keep a link with each of these members but ourselves. This may be called before `start`."""
        for peer_id in sorted(self._roster.set_members(members)):
            if (dialer := self._dialers.pop(peer_id, None)) is not None:
                dialer.cancel()
            if (call := self._calls.get(peer_id)) is not None:
                self.crossed(call)
            self._loop.call_later(LEAVING_GRACE_S, self._part, peer_id)
        self._dial_peers()

    def send(self, node: Node, message: Any) -> bool:
        """Send to the link with this node. Return False if the message surely was not sent."""
        link = self._links.get(node.id)
        if link is None:
            return False
        if message is not self._packed_message:
            self._packed_message, self._packed_body = message, self._packer.pack(message)
        body = self._packed_body
        assert len(body) <= FRAME_BYTES_MAX, "the settings keep a message below a frame"
        if self._faults is not None:
            delay_s = self._faults.delay_s(node.id)
            return delay_s is None or link.write_later(body, delay_s)
        return link.write(body)

    def destroy(self) -> None:
        """Close everything at once. Raft calls this when it is closed."""
        if self._closed:
            return
        self._closed = True
        for dialer in self._tasks:
            dialer.cancel()
        if self._listener is not None:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
        for link in (*self._links.values(), *self._unproven):
            link.end()
        for held in (self._links, self._nodes, self._calls, self._unproven):
            held.clear()

    async def close(self) -> None:
        """Close everything, as `destroy` does, and wait until the dialling has ended."""
        self.destroy()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- calling ------------------------------------------------------------------------------------

    def _dial_peers(self) -> None:
        if self._listener is None or self._closed:
            return
        for peer_id in self._roster.peers.keys() - self._dialers.keys():
            dialer = self._loop.create_task(self._dial(peer_id), name=f"dial {peer_id}")
            self._dialers[peer_id] = dialer
            self._tasks.add(dialer)
            dialer.add_done_callback(self._tasks.discard)

    async def _dial(self, peer_id: str) -> None:
        greater = self.self_id > peer_id
        pause_s = REDIAL_S if greater else LESSER_REDIAL_S
        refused_s = REDIAL_S[1]
        delay_s = 0.0 if greater else random.uniform(*pause_s)
        while True:
            await asyncio.sleep(delay_s)
            delay_s = random.uniform(*pause_s)
            link = self._links.get(peer_id) or await self._call(peer_id)
            if link is None:
                continue
            await link.ended.wait()
            if link.peer_id is not None:
                refused_s = REDIAL_S[1]
                continue
            refused_s = min(refused_s * 2, REFUSED_REDIAL_MAX_S)
            delay_s = max(delay_s, random.uniform(refused_s / 2, refused_s))
            if link.hung_up_on and refused_s == REFUSED_REDIAL_MAX_S:
                self._remark(peer_id, "it hangs up on us, again and again: its log says why", link.host)

    async def _call(self, peer_id: str) -> Link | None:
        """Call the peer once. Return the link to wait for, perhaps one that came into use meanwhile."""
        try:
            address = self._address_of(self._roster.peers[peer_id])
            connection = await self._connect(address)
        except OSError:  # nobody listens, or not in time: usual while a peer is down
            return None
        except (LookupError, ValueError) as error:
            self._remark(peer_id, f"it cannot be called: {error}")
            return None
        if (link := self._links.get(peer_id)) is not None:
            connection.close()
            return link
        with contextlib.suppress(OSError):
            link = self._calls[peer_id] = self._begin(connection, peer_id)
        return link

    async def _connect(self, address: str) -> socket.socket:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            family, target = await resolve(self._loop, address)
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.setblocking(False)
                await self._loop.sock_connect(connection, target)
            except BaseException:
                connection.close()
                raise
        return connection

    # -- being called -------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None, "its reader is removed before it is closed"
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # the caller is gone again already
            return
        except OSError as error:
            # Most likely no descriptor is left: to ask again at once would only burn the processor.
            self._remark(None, f"accept failed: {error}")
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(ACCEPT_PAUSE_S, self._listen_again)
            return
        if len(self._unproven) >= UNPROVEN_LINKS_MAX:
            connection.close()
            self._remark(None, f"{UNPROVEN_LINKS_MAX} handshakes are under way already")
            return
        with contextlib.suppress(OSError):  # the caller may be gone again already
            self._begin(connection, None)

    def _listen_again(self) -> None:
        if self._listener is not None and not self._closed:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _begin(self, connection: socket.socket, dial: str | None) -> Link:
        """Make a link of a connection. Raises OSError when it has broken meanwhile."""
        admit = self._admit_caller if dial is None else self._admit_called
        handshake = Handshake(self._identity, self._secret, dial, admit)
        tls = None
        if self._tls is not None and connection.family != socket.AF_UNIX:
            dials = dial is not None
            tls = TlsStream(self._tls[dials], dials=dials)
        try:
            link = Link(self, self._loop, connection, handshake, tls=tls)
        except OSError:
            connection.close()
            raise
        self._unproven.add(link)
        return link

    # -- asked by handshakes ------------------------------------------------------------------------

    def _admit_called(self, peer_id: str, nonce: bytes) -> None:
        if peer_id in self._links:
            raise Crossed

    def _admit_caller(self, peer_id: str, nonce: bytes) -> None:
        successor = self._roster.successor(peer_id, self._loop.time())
        if successor is not None:
            raise Refused(f"{peer_id} has been replaced by {successor}")
        if nonce in self._nonces:
            raise Refused("its nonce was used before: a replayed handshake")
        self._nonces.append(nonce)
        self._check_room(peer_id)
        if self._own_stays(peer_id):
            raise Crossed
        if (call := self._calls.get(peer_id)) is not None:
            if self.self_id > peer_id and self._is_young(call.began_at):
                raise Crossed
            self.crossed(call)

    def _check_room(self, peer_id: str) -> None:
        known = peer_id in self._links or peer_id in self._roster.peers
        if not known and len(self._links) >= LINKS_MAX:
            raise Refused(f"it is no member, and {LINKS_MAX} links are in use")

    def _own_stays(self, peer_id: str) -> bool:
        """Return whether a link that we dialled has come into use just now: the peer, who calls, has not seen
        it yet."""
        link = self._links.get(peer_id)
        if link is None or link.dial is None or self.self_id < peer_id:
            return False
        return self._is_young(link.proven_at)

    def _is_young(self, since: float) -> bool:
        return self._loop.time() - since < CROSSING_S

    # -- called by links ----------------------------------------------------------------------------

    def proven(self, link: Link, peer_id: str) -> None:
        """Take the link into use, in the place of an older one with the same peer."""
        if link.dial is None:
            try:
                self._check_room(peer_id)
            except Refused as refused:
                self.refused(link, peer_id, str(refused))
                return
            if self._own_stays(peer_id):
                self.crossed(link)
                return
        self._forget_unproven(link)
        if (old := self._links.get(peer_id)) is not None:
            self._drop(old)
        self._links[peer_id] = link
        self._nodes[peer_id] = node = Node(peer_id)
        link.give = partial(self._arrived, node)
        self._remarks = {remark for remark in self._remarks if remark[0] != peer_id}
        self._connected(node)
        self.activity()

    @property
    def taken(self) -> int:
        """Return how many messages of peers were taken."""
        return self._taken + sum(link.taken for link in self._links.values())

    def activity(self) -> None:
        if not self._closed:
            self.on_activity()

    def refused(self, link: Link, peer_id: str | None, reason: str) -> None:
        self._remark(peer_id, reason, link.host)
        self._drop(link)

    def crossed(self, link: Link) -> None:
        self._forget_unproven(link)
        link.end()

    def lost(self, link: Link, *, closed_by_host: bool) -> None:
        peer_id = self._drop(link)
        if peer_id is not None and closed_by_host and self.on_peer_lost is not None:
            self.on_peer_lost(peer_id)
            self.activity()

    def _part(self, peer_id: str) -> None:
        """End the link with a member that left: its grace is over."""
        link = self._links.get(peer_id)
        if link is not None and peer_id not in self._roster.peers:
            self._drop(link)

    def _forget_unproven(self, link: Link) -> None:
        self._unproven.discard(link)
        if link.dial is not None and self._calls.get(link.dial) is link:
            del self._calls[link.dial]

    def _drop(self, link: Link) -> str | None:
        """End the link. Return its peer's id if it was the one in use. Raft is told before the peer can see
        it: a leader must forget what the peer granted."""
        self._forget_unproven(link)
        peer_id = link.peer_id
        used = peer_id is not None and self._links.get(peer_id) is link
        if peer_id is not None and used:
            del self._links[peer_id]
            self._taken += link.taken
            self._disconnected(self._nodes.pop(peer_id))
        link.end()
        if not used:
            return None
        self.activity()
        return peer_id

    def _remark(self, peer_id: str | None, reason: str, host: str = "") -> None:
        """Write one log line per peer and reason, until that peer has been connected again."""
        if (peer_id, reason) in self._remarks or len(self._remarks) >= REMARKS_MAX:
            return
        self._remarks.add((peer_id, reason))
        peer = f"{peer_id or 'an unknown process'}{host and f' at {host}'}"
        log.warning("%s %s: link with %s closed: %s", self._identity.group, self.self_id, peer, reason)
