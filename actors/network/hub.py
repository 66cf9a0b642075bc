"""The broker's side of its node's Unix socket, on which the node's replicas announce who leads.

A replica connects as soon as there is a broker, and again when the broker was restarted; it then tells anew
who leads its partition and which connections it has. The broker hands connections over, relays frames, and
pushes what every replica must know (the metadata image). See link.py for the other side.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import stat
from collections import Counter
from typing import Any, Final, NamedTuple, Protocol

from actors.ground.identity import ClientIdentity
from actors.network import greeting
from actors.network.channel import Answer, Channel, Kind, guarded
from actors.network.quota import ConnectionQuota

logger = logging.getLogger(__name__)

BACKLOG: Final = 256
PATH_BYTES_MAX: Final = 107
TOGETHER_LEVEL: Final = 2
"""The level of `groupd.version` from which on connections are handed over several at a time."""


class Leading(NamedTuple):
    """Who leads a partition, as the node's own replica of it last said."""

    leader_node_id: int
    """The node of the leader; -1: the replica knows of none."""
    term: int
    serving_here: bool
    """Whether that replica itself leads, and has committed in its term: it can be handed connections."""


class HubHandlers(Protocol):
    """What the broker does with what replicas send."""

    def on_leading(self, partition: int, leading: Leading | None) -> None:
        """Learn that `Hub.leaders[partition]` has changed; None: the replica that led here is gone."""

    def on_link(self, partition: int, connected: bool) -> None:
        """Learn that a replica has come or gone."""

    def on_relay(self, partition: int, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        """Serve a frame of a client that a replica adopted and that it cannot serve."""

    def on_hand_back(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        """Take a connection back, with its claim on the quota."""


class Hub:
    """The node's Unix socket, with one link per partition. All calls are on the loop's thread."""

    def __init__(self, path: str, secret: bytes, handlers: HubHandlers, quota: ConnectionQuota) -> None:
        self.leaders: dict[int, Leading] = {}
        self._path = path
        self._secret = secret
        self._handlers = handlers
        self._quota = quota
        self._links: dict[int, _ReplicaLink] = {}
        self._strangers: set[_ReplicaLink] = set()
        self._pushed: dict[str, bytes] = {}
        self._takes_many = False
        self._sock: socket.socket | None = None
        self._inode = 0
        self._refusal_logged = ""
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Bind and accept. Raises OSError naming the path: too long, or another broker listens there."""
        if len(os.fsencode(self._path)) > PATH_BYTES_MAX:
            raise OSError(
                errno.ENAMETOOLONG, f"a Unix socket's path has at most {PATH_BYTES_MAX} bytes", self._path
            )
        self._loop = asyncio.get_running_loop()
        self._remove_stale()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # On Linux the file gets its mode from the socket: 0600 from its first moment, without a umask
            # that other threads would see.
            os.fchmod(sock.fileno(), 0o600)
            sock.bind(self._path)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise OSError(error.errno, f"cannot listen: {error.strerror}", self._path) from error
        self._sock = sock
        self._inode = os.stat(self._path).st_ino
        self._loop.add_reader(sock.fileno(), self._accept)

    def close(self) -> None:
        """Drop all links and remove the socket's file, unless another broker has replaced it."""
        if self._sock is None:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        self._sock = None
        for link in (*self._strangers, *self._links.values()):
            link.channel.close("the broker stops")
        try:
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        except FileNotFoundError:
            logger.warning("%s was removed by somebody else", self._path)

    def connected(self, partition: int) -> bool:
        return partition in self._links

    def learn_level(self, level: int) -> None:
        """Take in the level of `groupd.version` that every actor of the tier is at."""
        if level >= TOGETHER_LEVEL and not self._takes_many:
            self._takes_many = True  # levels only rise
            for link in self._links.values():
                link.channel.takes_many = True

    def hand_over(
        self, partition: int, sock: socket.socket, identity: ClientIdentity, buffered: bytes
    ) -> bool:
        """Give a client's connection to the node's replica of `partition`, with its claim on the quota.
        Return False if no replica is connected, and the socket is still the caller's. If the replica dies
        before it has the socket, the connection is closed."""
        link = self._links.get(partition)
        if link is None or not link.channel.hand_over(sock, identity, buffered):
            return False
        link.adopted[identity.address] += 1
        return True

    def ask(
        self, partition: int, identity: ClientIdentity, frame: bytes, answer: Answer, timeout_s: float
    ) -> None:
        """Have the node's replica of `partition` serve a frame. `answer` is called exactly once: with the
        whole answer (b"" for none), or with None (no link, link lost, too slow, or the replica says so): then
        the client's connection is to be closed."""
        link = self._links.get(partition)
        if link is None:
            answer(None)
        else:
            link.channel.relay(identity, frame, answer, timeout_s)

    async def relay(
        self, partition: int, identity: ClientIdentity, frame: bytes, timeout_s: float
    ) -> bytes | None:
        """Have the node's replica of `partition` serve a frame, as `ask` does, and return what the answer is
        called with."""
        answered: asyncio.Future[bytes | None] = self._loop.create_future()
        self.ask(partition, identity, frame, _setter(answered), timeout_s)
        return await answered

    def push(self, kind: str, payload: bytes) -> None:
        """Send to every replica, those that connect later included: the last payload of each kind is kept."""
        self._pushed[kind] = payload
        for link in tuple(self._links.values()):
            link.channel.send((Kind.PUSH, kind, payload))

    # What a _ReplicaLink calls.

    def welcome(self, link: _ReplicaLink, partition: int, replica_nonce: bytes) -> None:
        self._strangers.discard(link)
        predecessor = self._links.get(partition)
        if predecessor is not None:
            # The replica was restarted faster than its old socket was seen to close.
            predecessor.channel.close("the replica has connected again")
        self._links[partition] = link
        link.channel.takes_many = self._takes_many
        nonces = (link.nonce, replica_nonce)
        link.channel.send((Kind.WELCOME, greeting.proof(self._secret, b"broker", partition, nonces)))
        for kind, payload in self._pushed.items():
            link.channel.send((Kind.PUSH, kind, payload))
        guarded(self._handlers.on_link, partition, True)

    def lost(self, link: _ReplicaLink, reason: str) -> None:
        self._strangers.discard(link)
        for address, count in link.adopted.items():
            self._quota.give_back(address, count)
        link.adopted.clear()
        if link.partition is None:
            if reason != self._refusal_logged:
                # A refused replica tries again ten times a second.
                self._refusal_logged = reason
                logger.warning("refused a link on %s: %s", self._path, reason)
            return
        if self._links.get(link.partition) is not link:
            return
        del self._links[link.partition]
        logger.info("link %d is down: %s", link.partition, reason)
        leading = self.leaders.get(link.partition)
        if leading is not None and leading.serving_here:
            # What it said of another node may still be true; that it leads itself is not.
            del self.leaders[link.partition]
            guarded(self._handlers.on_leading, link.partition, None)
        guarded(self._handlers.on_link, link.partition, False)

    def led(self, partition: int, leading: Leading) -> None:
        if self.leaders.get(partition) != leading:
            self.leaders[partition] = leading
            guarded(self._handlers.on_leading, partition, leading)

    def _accept(self) -> None:
        assert self._sock is not None
        try:
            sock, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        if len(self._strangers) >= BACKLOG:
            sock.close()
            return
        self._strangers.add(_ReplicaLink(self, sock))

    def _remove_stale(self) -> None:
        """Remove the socket's file that a killed broker leaves; a living broker must not lose its own."""
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.setblocking(False)
            probe.connect(self._path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if stat.S_ISSOCK(os.stat(self._path).st_mode):
                os.unlink(self._path)
            return  # anything else is not ours to remove: bind says so
        except BlockingIOError:
            pass  # its backlog is full, so it lives
        finally:
            probe.close()
        raise OSError(errno.EADDRINUSE, "another broker listens there", self._path)


class _ReplicaLink:
    """One replica's link, from its connect to its end."""

    def __init__(self, hub: Hub, sock: socket.socket) -> None:
        self.partition: int | None = None
        self.nonce = greeting.nonce()
        self.adopted: Counter[str] = Counter()
        """The connections that the replica has, by client address: their claims on the quota."""
        self._hub = hub
        self.channel = Channel(hub._loop, sock, self)
        self._deadline = hub._loop.call_later(
            greeting.GREETING_S_MAX, self.channel.close, "it did not prove itself in time"
        )
        self.channel.send((Kind.CHALLENGE, greeting.LINK_VERSION, self.nonce))

    def on_message(self, message: list[Any]) -> None:
        kind = message[0]
        if self.partition is None:
            if kind != Kind.HELLO:
                raise ValueError("not a greeting")
            self._on_hello(message)
        elif kind == Kind.LEADING:
            _, leader_node_id, term, serving_here = message
            self._hub.led(self.partition, Leading(int(leader_node_id), int(term), bool(serving_here)))
        elif kind == Kind.GONE:
            self._give_back(str(message[1]))
        elif kind == Kind.ADOPTED:
            for address, count in message[1].items():
                self.adopted[address] += count
                self._hub._quota.claim(address, count)
        else:
            raise ValueError(f"a replica does not send {Kind(kind).name}")

    def on_socket(self, sock: socket.socket | None, identity: ClientIdentity, buffered: bytes) -> None:
        if sock is None:
            logger.warning("lost the connection of %s: no descriptor is free", identity.peer)
            self._give_back(identity.address)
            return
        self.adopted[identity.address] -= 1  # the claim comes back with the connection
        self._hub._handlers.on_hand_back(sock, identity, buffered)

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        assert self.partition is not None
        self._hub._handlers.on_relay(self.partition, identity, frame, answer)

    def on_lost(self, reason: str) -> None:
        self._deadline.cancel()
        self._hub.lost(self, reason)

    def _on_hello(self, message: list[Any]) -> None:
        _, version, partition, replica_nonce, proof = message
        greeting.check_version(version)
        greeting.check_partition(partition)
        nonces = (self.nonce, greeting.check_nonce(replica_nonce))
        greeting.check_proof(proof, greeting.proof(self._hub._secret, b"replica", partition, nonces))
        self._deadline.cancel()
        self.partition = partition
        self.channel.opened()
        self._hub.welcome(self, partition, replica_nonce)

    def _give_back(self, address: str) -> None:
        if self.adopted[address] > 0:
            self.adopted[address] -= 1
            self._hub._quota.give_back(address)


def _setter(answered: asyncio.Future[bytes | None]) -> Answer:
    """Return an answer that sets a future, unless its awaiter was cancelled meanwhile."""

    def answer(frame: bytes | None) -> None:
        if not answered.done():
            answered.set_result(frame)

    return answer
