"""TLS handshakes of clients that were accepted: few may be under way, each for a short time, and all together
take little of a loop's round.

When a handshake is over there is a socket pair: one end stands for the client from then on, exactly as its
plain socket would, and may go to another actor. The other end stays here, with the TLS session
(`actors.network.pump`).

A handshake takes a millisecond of processor, so that a thousand clients who come at once must not be served
in one round, before everybody whose connection is open. Clients that keep a handshake waiting are closed in
the end, and at once if there is no room for others.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

from actors.ground.identity import ClientIdentity
from actors.ground.limits import HANDSHAKE_MS_MAX, HANDSHAKES_MAX
from actors.network.certificates import Certificates, reason_of
from actors.network.flood_log import FloodLog
from actors.network.lending import PlainSocket
from actors.network.pace import Pace
from actors.network.pump import Pump
from actors.network.table import ConnectionTable
from actors.security.principal_rules import NoRule

logger = logging.getLogger(__name__)

ROUND_MS: Final = 5
"""How long all handshakes together may keep the loop to themselves."""
STALLED_S: Final = 1.0
"""How long, in seconds, a client may keep a handshake waiting while there is no room for others."""
_HANDSHAKE_RECORD: Final = 0x16
_DRAINED_BYTES: Final = 64 * 1024

Opened = Callable[[socket.socket, ClientIdentity], object]
"""A function that takes what stands for the client from now on, and who it is."""


class Handshakes:
    """The handshakes of one port. `opened` and `failed` are called once for each, unless `close` ends it."""

    def __init__(
        self,
        certificates: Certificates,
        table: ConnectionTable,
        opened: Opened,
        failed: Callable[[ClientIdentity], object],
    ) -> None:
        self.certificates = certificates
        self.loop = table.loop
        self.pace = Pace(table.loop, time.monotonic, ROUND_MS)
        self._handshake_s = min(HANDSHAKE_MS_MAX, table.limits.first_frame_ms_max) / 1000
        self._idle_s = table.limits.idle_ms_max / 1000
        self._opened = opened
        self._failed = failed
        self._log = FloodLog(table.loop, logger, "no TLS with %d clients")
        self._waiting: dict[_Handshake, float] = {}
        """Handshake -> since when its client owes the next bytes, the longest first."""
        self._under_way: set[_Handshake] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, sock: socket.socket, identity: ClientIdentity) -> None:
        """Take an accepted socket, non-blocking, which belongs to the handshake now."""
        handshake = _Handshake(self, sock, identity, self.loop.time() + self._handshake_s)
        self._under_way.add(handshake)
        handshake.wait()

    def refusal(self) -> str | None:
        """Return why no further handshake may begin; None if one may, for which the client that keeps another
        one waiting for the longest time may have had to go."""
        if len(self._under_way) < HANDSHAKES_MAX:
            return None
        stalled = next(iter(self._waiting), None)
        if stalled is None or self.loop.time() - self._waiting[stalled] < STALLED_S:
            return f"{len(self._under_way)} TLS handshakes are under way"
        stalled.fail("it kept the TLS handshake waiting, and others wait for the room")
        return None

    def sweep(self) -> None:
        """Close those whose time is over, and look after the certificates."""
        now_s = self.loop.time()
        for handshake in [each for each in self._under_way if now_s >= each.deadline_s]:
            handshake.fail(f"no whole TLS handshake within {self._handshake_s:g} s")
        self.certificates.look()

    def close(self) -> None:
        """End what is under way. Connections that are open end with what serves them."""
        for handshake in tuple(self._under_way):
            handshake.stop()
            handshake.sock.close()
        self._under_way.clear()

    # What a _Handshake calls.

    def owes(self, handshake: _Handshake) -> None:
        """Note that a client has to send something."""
        self._waiting[handshake] = self.loop.time()

    def has_sent(self, handshake: _Handshake) -> None:
        self._waiting.pop(handshake, None)

    def failed(self, handshake: _Handshake, reason: str | None) -> None:
        self._under_way.discard(handshake)
        if reason is not None:
            self.certificates.handshakes_failed_total += 1
            self._log.tell(f"{reason}; the last one was {handshake.identity.peer}")
        self._failed(handshake.identity)

    def done(self, handshake: _Handshake, tls: ssl.SSLSocket) -> None:
        """Open the connection of a client that has got through."""
        identity = handshake.identity
        try:
            if not self.certificates.has_sasl:
                principal = self.certificates.principal(tls.getpeercert(binary_form=True))
                identity = identity._replace(principal=principal)
            near, far = socket.socketpair()
        except (OSError, ValueError, NoRule) as error:
            handshake.fail(str(error))
            return
        self._under_way.discard(handshake)
        for end in (near, far):
            end.setblocking(False)
        Pump(self.loop, tls, near, self._idle_s).start()
        self._opened(PlainSocket(far.family, far.type, far.proto, far.detach()), identity)


class _Handshake:
    """The handshake of one client, from its accept on."""

    __slots__ = ("_descriptor", "_has_stopped", "_owner", "deadline_s", "identity", "sock")

    def __init__(
        self, owner: Handshakes, sock: socket.socket, identity: ClientIdentity, deadline_s: float
    ) -> None:
        self.sock = sock
        """The client's socket; an SSLSocket from the first byte on."""
        self.identity = identity
        self.deadline_s = deadline_s
        self._owner = owner
        self._descriptor = sock.fileno()
        self._has_stopped = False

    def wait(self, *, writing: bool = False) -> None:
        """Go on when the client has sent something, or takes something."""
        if writing:
            self._owner.loop.add_writer(self._descriptor, self._ready)
        else:
            self._owner.loop.add_reader(self._descriptor, self._ready)
        self._owner.owes(self)

    def take_turn(self) -> None:
        """Go on in a later round (`actors.network.pace`)."""
        if not self._has_stopped:
            self._step()

    def fail(self, reason: str | None) -> None:
        """Close: what TLS has to say of it is sent already. Without a reason nothing went wrong."""
        self.stop()
        # With bytes unread the system would reset the connection, and the client never read why.
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
            socket.socket.recv(self.sock, _DRAINED_BYTES)
        self.sock.close()
        self._owner.failed(self, reason)

    def stop(self) -> None:
        self._has_stopped = True
        self._look_away()

    def _look_away(self) -> None:
        self._owner.loop.remove_reader(self._descriptor)
        self._owner.loop.remove_writer(self._descriptor)
        self._owner.has_sent(self)

    def _ready(self) -> None:
        self._look_away()
        if self._owner.pace.may_go_on():
            self._step()
        else:
            self._owner.pace.wait(self)

    def _step(self) -> None:
        try:
            if not isinstance(self.sock, ssl.SSLSocket) and not self._begin():
                return
            tls = self.sock
            assert isinstance(tls, ssl.SSLSocket)
            tls.do_handshake()
        except (BlockingIOError, ssl.SSLWantReadError):
            self.wait()
        except ssl.SSLWantWriteError:
            self.wait(writing=True)
        except (OSError, ValueError) as error:
            self.fail(reason_of(error))
        else:
            self.stop()
            self._owner.done(self, tls)

    def _begin(self) -> bool:
        """Look at the first byte, and begin TLS. Return False if it is none of TLS."""
        first = self.sock.recv(1, socket.MSG_PEEK)
        if not first or first[0] != _HANDSHAKE_RECORD:
            self.fail("it speaks no TLS" if first else None)
            return False
        self.sock = self._owner.certificates.contexts.server.wrap_socket(
            self.sock, server_side=True, do_handshake_on_connect=False
        )
        return True
