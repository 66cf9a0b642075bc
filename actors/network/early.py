"""A connection of which it is not known yet who serves it: whole frames are read from the plain socket.

There is no transport yet, so that the socket can go to another actor as it is, with the bytes already
read. For each frame the broker decides: answer it here and go on, keep the connection for good, or hand it
over. Early frames are few (ApiVersions, SASL, Metadata, FindCoordinator) and answered at once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from actors.ground.identity import ClientIdentity
from actors.ground.limits import FIRST_FRAME_FREE_BYTES, FRAMES_PER_TURN_MAX, SASL_FRAME_BYTES_MAX
from actors.network.connection import Service
from actors.network.first_frames import FirstFrames
from actors.network.frames import FRAME_BYTES_MIN, BadFrame, FrameBuffer, with_length
from actors.network.table import ConnectionTable

logger = logging.getLogger(__name__)

READ_BYTES = 64 * 1024
DISMISSAL_DELAY_S = 0.1


class Keep(NamedTuple):
    """The decision that the connection stays in this actor; `service` serves it from this frame on."""

    service: Service


class HandOver(NamedTuple):
    """The decision that the connection goes elsewhere, with this frame as the first to be served there."""

    give: Callable[[socket.socket, ClientIdentity, bytes], bool]
    """A function that takes (socket, identity, bytes read and not served), or returns False and leaves the
    socket."""
    otherwise: Service
    """What serves the connection here if `give` could not take it."""


class Dismiss(NamedTuple):
    """The decision that the client may not come in: it is answered and closed, after a while, so that it
    cannot try again at once (`connection.failed.authentication.delay.ms`)."""

    answer: bytes
    reason: str
    """Why the client may not come in, for the log."""


class Again(NamedTuple):
    """The decision that the same frame is to be decided later; nothing is read until then."""

    wake_with: Callable[[Callable[[], object]], object]
    """A function that is given what to call when it is time, and does so once, not before it has returned."""


Decision = bytes | Keep | HandOver | Dismiss | Again
"""What is decided by a frame. bytes are the whole answer, length included, b"" for none; the next frame is
decided again."""
Decide = Callable[["EarlyConnection", bytes], Decision]


class EarlyOwner(Protocol):
    """The listener, as an early connection needs it."""

    loop: asyncio.AbstractEventLoop
    table: ConnectionTable
    decide: Decide
    first_frames: FirstFrames

    def proved(self, early: EarlyConnection) -> None:
        """Learn that a connection's first whole frame is here."""

    def left(self, early: EarlyConnection, ended: bool) -> None:
        """Learn that a connection is early no longer; `ended` says that it was closed."""


class EarlyConnection:
    """One accepted socket until it is kept, handed over or closed."""

    __slots__ = (
        "_close_reason",
        "_closed",
        "_frames",
        "_in_turn",
        "_owner",
        "_room_bytes",
        "_sock",
        "_unsent",
        "deadline_s",
        "identity",
        "proven",
        "session",
    )

    def __init__(self, owner: EarlyOwner, sock: socket.socket, identity: ClientIdentity) -> None:
        self.identity = identity
        self.session: Any = None
        """What the broker keeps of this connection; it goes along to the Connection that is kept."""
        self.deadline_s = owner.loop.time() + owner.table.limits.first_frame_ms_max / 1000
        """When, by the loop's clock, the connection is closed for saying nothing."""
        self.proven = False
        self._owner = owner
        self._sock = sock
        # Who must authenticate has no principal yet, and nothing large to say.
        frame_bytes_max = owner.table.limits.frame_bytes_max
        self._frames = FrameBuffer(
            frame_bytes_max if identity.principal else min(SASL_FRAME_BYTES_MAX, frame_bytes_max)
        )
        self._room_bytes = FIRST_FRAME_FREE_BYTES
        """How much may be read and not yet taken, unless the client has proved itself."""
        self._unsent = b""
        self._closed = False
        self._close_reason: str | None = None
        self._in_turn = False
        owner.loop.add_reader(sock.fileno(), self._readable)

    def take_up(self, buffered: bytes) -> None:
        """Go on with a connection that a replica gave back: its client has proved itself long ago."""
        self.proven = True
        self.deadline_s = self._owner.loop.time() + self._owner.table.limits.idle_ms_max / 1000
        self._frames.frame_bytes_max = self._owner.table.limits.frame_bytes_max
        self._frames.feed(buffered)
        self._owner.loop.call_soon(self._next_turn)

    def take_bare_tokens(self, bare: bool) -> None:
        """Take frames of any length, down to none at all: SASL tokens without a Kafka header."""
        self._frames.frame_bytes_min = 0 if bare else FRAME_BYTES_MIN

    def close(self, reason: str | None = None) -> None:
        """Close; if there is a reason, one line of the log names it and the peer. If this is called while a
        frame is being decided, the answer returned for it still goes out first."""
        if self._closed:
            return
        self._closed = True
        self._close_reason = reason
        if not self._in_turn:
            self._end()

    def _readable(self) -> None:
        room_bytes = READ_BYTES if self.proven else min(self._room_bytes - len(self._frames), READ_BYTES)
        try:
            data = self._sock.recv(room_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # a reset is an end like any other
        if not data:
            self.close()
            return
        self._frames.feed(data)
        self._turn()

    def _turn(self) -> None:
        # While the flag is up `close` only notes the wish, so that the last answer is not lost.
        self._in_turn = True
        served = 0
        while not self._unsent and not self._closed and served < FRAMES_PER_TURN_MAX:
            try:
                frame = self._frames.next()
            except BadFrame as bad:
                self.close(str(bad))
                break
            if frame is None:
                if not self.proven:
                    self._make_room()
                break
            served += 1
            if self._step(frame):
                return
            if self._room_bytes > FIRST_FRAME_FREE_BYTES:
                self._give_room_back()
        self._in_turn = False
        if self._closed:
            self._end()
        elif served == FRAMES_PER_TURN_MAX:
            self._owner.loop.call_soon(self._next_turn)

    def _make_room(self) -> None:
        """Claim room for a frame that is larger than what may be read; read no further without it."""
        size_bytes = len(self._frames) + self._frames.lacks_bytes
        if size_bytes > self._room_bytes and len(self._frames) >= self._room_bytes:
            if self._owner.first_frames.claim(self, size_bytes):
                self._room_bytes = size_bytes
            else:
                self._owner.loop.remove_reader(self._sock.fileno())

    @property
    def read_bytes(self) -> int:
        """Return how much is read and not yet taken."""
        return len(self._frames)

    def read_on(self) -> None:
        """Read a frame whose claim had to wait (`actors.network.first_frames`)."""
        self._room_bytes = len(self._frames) + self._frames.lacks_bytes
        self._owner.loop.add_reader(self._sock.fileno(), self._readable)

    def _give_room_back(self) -> None:
        self._room_bytes = FIRST_FRAME_FREE_BYTES
        self._owner.first_frames.give_back(self)

    def _next_turn(self) -> None:
        if not self._closed and not self._in_turn:
            self._turn()

    def _step(self, frame: bytes) -> bool:
        """Decide one frame. Return whether the connection has left, or waits for something."""
        try:
            decision = self._owner.decide(self, frame)
        except Exception:
            # A bug of ours must cost one connection and one log entry, not the broker.
            logger.exception("closed %s: its request could not be decided", self.identity.peer)
            self.close()
            return False
        if isinstance(decision, bytes):
            if self.identity.principal:
                self._prove()
            self._send(decision)
            return False
        if isinstance(decision, Dismiss):
            self._owner.loop.remove_reader(self._sock.fileno())
            self._owner.loop.call_later(DISMISSAL_DELAY_S, self._dismiss, decision)
            return True
        if self._closed:
            return False
        if isinstance(decision, Again):
            self._owner.loop.remove_reader(self._sock.fileno())
            decision.wake_with(partial(self._decide_again, frame))
            return True
        self._leave(decision, with_length(frame) + self._frames.drain())
        return True

    def _decide_again(self, frame: bytes) -> None:
        if self._closed:
            return
        self._owner.loop.add_reader(self._sock.fileno(), self._readable)
        if not self._step(frame):
            self._turn()

    def _prove(self) -> None:
        """Note that a request was answered, and that the client is one that is let in."""
        if not self.proven:
            self.proven = True
            self._frames.frame_bytes_max = self._owner.table.limits.frame_bytes_max
            self._owner.proved(self)
        self.deadline_s = self._owner.loop.time() + self._owner.table.limits.idle_ms_max / 1000

    def _dismiss(self, decision: Dismiss) -> None:
        if self._closed:
            return
        self._in_turn = False
        self._send(decision.answer)
        self.close(decision.reason)

    def _leave(self, decision: Keep | HandOver, buffered: bytes) -> None:
        self._stop()
        self._owner.left(self, ended=False)
        if isinstance(decision, HandOver):
            if decision.give(self._sock, self.identity, buffered):
                return
            service = decision.otherwise
        else:
            service = decision.service
        kept = self._owner.table.adopt(self._sock, buffered, self.identity, service)
        kept.session = self.session

    def _send(self, answer: bytes) -> None:
        try:
            sent = self._sock.send(answer) if answer else 0
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(answer):
            # Nothing more is read before the client has taken this: that bounds what one can pile up.
            self._unsent = answer[sent:]
            self._owner.loop.remove_reader(self._sock.fileno())
            self._owner.loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._closed = True
            self._end()
            return
        if not self._unsent:
            self._owner.loop.remove_writer(self._sock.fileno())
            if self._closed:
                self._end()
                return
            self._owner.loop.add_reader(self._sock.fileno(), self._readable)
            self._turn()

    def cut(self) -> None:
        """Close at once, whatever is unsent: the connection's time is over, or the broker's."""
        self._closed = True
        self._unsent = b""
        self._end()

    def _end(self) -> None:
        if self._unsent or self._sock.fileno() < 0:
            return  # `_writable` ends the connection, or it has ended
        if self._close_reason is not None:
            logger.warning("closed %s: %s", self.identity.peer, self._close_reason)
        self._stop()
        self._sock.close()
        self._owner.left(self, ended=True)

    def _stop(self) -> None:
        self._closed = True
        self._owner.loop.remove_reader(self._sock.fileno())
        self._owner.loop.remove_writer(self._sock.fileno())
