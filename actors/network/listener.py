"""A node's port, which accepts clients within limits and survives a full file table.

Accepted sockets stay plain sockets (early.py) until the broker has seen enough to know who serves them. Where
clients speak TLS, a plain socket stands for each whose handshake is over (handshakes.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Final, NamedTuple

from actors.ground.identity import ClientIdentity, identity_of
from actors.ground.spec import PLAINTEXT
from actors.network.certificates import Certificates
from actors.network.early import Decide, EarlyConnection
from actors.network.first_frames import FirstFrames
from actors.network.flood_log import FloodLog
from actors.network.handshakes import Handshakes
from actors.network.lending import PlainSocket
from actors.network.quota import ConnectionQuota
from actors.network.table import ConnectionTable

logger = logging.getLogger(__name__)

BACKLOG: Final = 4096
ACCEPTS_PER_TURN_MAX: Final = 64
"""How many connections are accepted before the loop goes on: a flood of new ones must not starve those that
are being served."""
ACCEPT_PAUSE_S: Final = 0.1
SWEEP_S_MAX: Final = 1.0

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class PortSecurity(NamedTuple):
    """What is asked of clients before their requests are served."""

    protocol: str = PLAINTEXT
    """The value of `listener.security.protocol`."""
    certificates: Certificates | None = None
    """The port's TLS; None: clients speak none."""
    listener: str = ""
    """The name by which who came here is known; "": that of the protocol."""


class Listener:
    """The port of one node, which accepts clients. All calls are on the loop's thread.

    `decide(early, frame)` is asked for each whole frame; see `actors.network.early`. Kept connections are
    adopted by `table`. `quota` counts what is accepted here. The caller gives a claim back when a connection
    ends that was kept (the table's `on_gone`) or handed over (the hub does).
    """

    def __init__(
        self,
        address: tuple[str, int],
        decide: Decide,
        table: ConnectionTable,
        quota: ConnectionQuota,
        security: PortSecurity | None = None,
    ) -> None:
        self.loop = table.loop
        self.table = table
        self.decide = decide
        self.quota = quota
        self.first_frames = FirstFrames(table.limits.first_frames_bytes_max)
        self.early: set[EarlyConnection] = set()
        self._address = address
        self._protocol, certificates, self._name = security or PortSecurity()
        self._unproven = 0
        self._sock: socket.socket | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._sweep_s = min(SWEEP_S_MAX, table.limits.first_frame_ms_max / 4000)
        self._refusals = FloodLog(self.loop, logger, "refused %d connections")
        self._handshakes = None
        if certificates is not None:
            self._handshakes = Handshakes(certificates, table, self._begin, self._failed)

    async def start(self) -> int:
        """Bind, and accept from now on. Return the port (the bound one if 0 was asked for).

        Raises OSError, with host and port in its text, when the address cannot be bound.
        """
        host, port = self._address
        where = await self.loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = where[0]
        sock = PlainSocket(family, kind, protocol)
        try:
            # A restarted broker must get its port back while old connections linger in TIME_WAIT.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
        self._sock = sock
        self.loop.add_reader(sock.fileno(), self._accept)
        self._sweeping = self.loop.call_later(self._sweep_s, self._sweep)
        return int(sock.getsockname()[1])

    def close(self) -> None:
        """Stop accepting and close what is still early; kept connections are the table's."""
        for timer in (self._pause, self._sweeping):
            if timer is not None:
                timer.cancel()
        if self._sock is not None:
            self.loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._sock = None
        if self._handshakes is not None:
            self._handshakes.close()
        for early in tuple(self.early):
            early.cut()

    def take_back(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> None:
        """Take back a connection that was handed over, with its claim: its next frame is decided anew."""
        early = EarlyConnection(self, sock, identity)
        self.early.add(early)
        early.take_up(buffered)

    # What an EarlyConnection calls.

    def proved(self, early: EarlyConnection) -> None:
        self._unproven -= 1

    def left(self, early: EarlyConnection, ended: bool) -> None:
        self.early.discard(early)
        self.first_frames.give_back(early)
        if not early.proven:
            self._unproven -= 1
        if ended:
            self.quota.give_back(early.identity.address)

    def _accept(self) -> None:
        assert self._sock is not None
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                # The listening socket stays readable: without a pause this would spin.
                self._refused(f"no room for another connection ({error.strerror})")
                self.loop.remove_reader(self._sock.fileno())
                self._pause = self.loop.call_later(ACCEPT_PAUSE_S, self._resume)
                return
            self._admit(sock, address)

    def _resume(self) -> None:
        self._pause = None
        if self._sock is not None:
            self.loop.add_reader(self._sock.fileno(), self._accept)

    def _admit(self, sock: socket.socket, address: tuple[object, ...]) -> None:
        identity = identity_of(address, self._protocol, self._name)
        refusal = self.quota.refusal(identity.address)
        if refusal is None and self._unproven >= self.table.limits.unproven_max:
            refusal = f"{self._unproven} connections have not sent a request yet"
        if refusal is None and self._handshakes is not None:
            refusal = self._handshakes.refusal()
        if refusal is not None:
            sock.close()
            self._refused(f"{refusal}, last refused was {identity.peer}")
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            sock.close()  # the client is gone already
            return
        self.quota.claim(identity.address)
        self._unproven += 1
        (self._begin if self._handshakes is None else self._handshakes.begin)(sock, identity)

    def _begin(self, sock: socket.socket, identity: ClientIdentity) -> None:
        """Read the first frames of a client, whose socket is plain."""
        self.early.add(EarlyConnection(self, sock, identity))

    def _failed(self, identity: ClientIdentity) -> None:
        """Learn that a client has not got through TLS, and is gone."""
        self._unproven -= 1
        self.quota.give_back(identity.address)

    def _refused(self, reason: str) -> None:
        self.quota.refused_total += 1
        self._refusals.tell(reason)

    def _sweep(self) -> None:
        self._sweeping = self.loop.call_later(self._sweep_s, self._sweep)
        now_s = self.loop.time()
        self.first_frames.sweep()
        if self._handshakes is not None:
            self._handshakes.sweep()
        for early in tuple(self.early):
            if now_s >= early.deadline_s:
                if not early.proven:
                    early.close("no whole request within the time allowed")
                early.cut()
