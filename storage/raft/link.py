"""One connection between two replicas: a plain socket on the loop's reader and writer callbacks.

These are not asyncio's transports: a link has to end at once and for good when Raft or its host says so, and
uvloop's may neither tell their protocol nor give their descriptor back when they end while they are being
made.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgpack

from storage.raft.errors import BadMessage
from storage.raft.handshake import Crossed, Handshake, Refused
from storage.raft.tls import TlsStream

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUE_BYTES_MAX: Final = 128 * 1024 * 1024
HANDSHAKE_FRAME_BYTES_MAX: Final = 1024
HANDSHAKE_TIMEOUT_S: Final = 2.0
READ_BYTES: Final = 64 * 1024
"""How much one read takes. A bigger read would be dear: each allocates as much, and above 128 KiB the
allocator asks the kernel."""
TLS_GREETING: Final = b"\x16\x03"
"""The bytes with which a TLS client begins; as a frame's length they would be one of 369 MB."""
NOT_MSGPACK: Final = "a frame that is not msgpack"
DEAD_LINK_TIMEOUT_MS: Final = 5_000
"""How long, in ms, a peer's kernel may acknowledge nothing before the link ends (TCP_USER_TIMEOUT): else one
that was cut for long would come back only at the pace of TCP's own retries."""


class LinkOwner(Protocol):
    """The owner of a link, which is told what becomes of it."""

    def proven(self, link: Link, peer_id: str) -> None:
        """Take the link into use: the other side is who it says. What it sends is given to `link.give` from
        then on."""

    def activity(self) -> None:
        """Learn that the messages of one read have been handled, and that they have left something to do."""

    def refused(self, link: Link, peer_id: str | None, reason: str) -> None:
        """Close the link, for this reason."""

    def crossed(self, link: Link) -> None:
        """Close the link, which is not proven: another link with the same peer stays instead."""

    def lost(self, link: Link, *, closed_by_host: bool) -> None:
        """Learn that the other side, or the network, has ended the link."""


class Link:
    """A connection from its handshake to its end. All methods belong to the loop's thread."""

    def __init__(
        self,
        owner: LinkOwner,
        loop: asyncio.AbstractEventLoop,
        connection: socket.socket,
        handshake: Handshake,
        *,
        tls: TlsStream | None = None,
    ) -> None:
        """Begin a link on an open connection. Raises OSError when it has broken meanwhile."""
        self.peer_id: str | None = None
        """The other side's id; None until it is proven."""
        self.began_at = loop.time()
        self.proven_at = 0.0
        self.dial: Final = handshake.dial
        """The member that we called; None if we were called."""
        self.give: Callable[[Any], object] = _nobody
        """What takes a message for Raft, and returns True if that has left nothing to do. Raises
        BadMessage."""
        self.taken = 0
        """How many messages were given."""
        self.ended = asyncio.Event()
        self._is_over = False
        self.hung_up_on = False
        """Whether the other side ended the connection."""
        self.host = _host_of(connection)
        self._owner = owner
        self._loop = loop
        self._socket = connection
        self._handshake: Handshake | None = handshake
        self._tls = tls
        self._buffer = bytearray()
        self._needed = 4
        self._queue: deque[memoryview] = deque()
        self._queue_bytes = 0
        self._late_until = 0.0
        _tune(connection)
        loop.add_reader(connection.fileno(), self._readable)
        self._deadline = loop.call_later(HANDSHAKE_TIMEOUT_S, self._too_slow)
        if self.dial is not None:
            opening = msgpack.packb(handshake.opening())
            assert len(opening) <= HANDSHAKE_FRAME_BYTES_MAX, "the names of tier and group are short"
            self.write(opening)

    def write(self, body: bytes) -> bool:
        """Send, or queue what the kernel does not take. Return False if the link has ended or its queue is
        full."""
        if self._is_over:
            return False
        if self._queue and self._queue_bytes + len(body) > QUEUE_BYTES_MAX:
            self._owner.refused(self, self.peer_id, f"more than {QUEUE_BYTES_MAX} bytes are not read")
            return False
        frame = len(body).to_bytes(4, "big") + body
        if self._tls is not None or self._queue:
            self._push(frame if self._tls is None else self._tls.seal(frame))
            return True
        try:
            sent = self._socket.send(frame)  # nearly always that is all there is to do
        except OSError:
            sent = self._send(frame)  # which knows what it means
        if sent < len(frame):
            self._keep(frame, sent)
        return True

    def write_later(self, body: bytes, delay_s: float) -> bool:
        """Send a message later, in order. Only injected faults call this."""
        now = self._loop.time()
        if delay_s <= 0 and self._late_until <= now:
            return self.write(body)
        # Timers have a resolution of a millisecond; closer ones might change places.
        self._late_until = max(now + delay_s, self._late_until + 0.002)
        self._loop.call_at(self._late_until, self.write, body)
        return True

    def end(self) -> None:
        """Close the connection. May be called again."""
        if self._is_over:
            return
        self._is_over = True
        self.ended.set()
        self._deadline.cancel()
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._socket.close()
        self._queue.clear()
        self._queue_bytes = 0

    # -- called by the loop -------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            # A process that is killed with unread bytes in its sockets resets its connections.
            self._lose(closed_by_host=isinstance(error, ConnectionResetError | BrokenPipeError))
            return
        if not data:
            self._lose(closed_by_host=True)
            return
        if self._tls is not None:
            data = self._opened(self._tls, data)
        elif (
            not self._buffer and self._handshake is None and len(data) == 4 + int.from_bytes(data[:4], "big")
        ):
            # Nearly always one write of the peer is one read.
            try:
                message = msgpack.unpackb(memoryview(data)[4:], use_list=False)
            except (ValueError, msgpack.UnpackException) as error:
                self._refuse(f"{NOT_MSGPACK}: {error!r}")
                return
            self.taken += 1
            try:
                if self.give(message) is True:
                    return
            except BadMessage as error:
                self._refuse(str(error))
            self._owner.activity()
            return
        self._buffer += data
        if len(self._buffer) >= self._needed and not self._is_over:
            self._take_frames()

    def _opened(self, tls: TlsStream, sealed: bytes) -> bytes:
        """Return what is inside the TLS records. If that cannot be had, the link has ended."""
        try:
            plain = tls.open(sealed)
        except Refused as refused:
            self._push(tls.pending())  # so that the other side's log can say why, too
            self._refuse(str(refused))
            return b""
        self._push(tls.pending())
        return plain

    def _lose(self, *, closed_by_host: bool) -> None:
        self.hung_up_on = closed_by_host
        self._owner.lost(self, closed_by_host=closed_by_host)

    def _writable(self) -> None:
        while self._queue:
            frame = self._queue[0]
            sent = self._send(frame)
            self._queue_bytes -= sent
            if sent < len(frame):
                self._queue[0] = frame[sent:]
                return
            self._queue.popleft()
        self._loop.remove_writer(self._socket.fileno())

    def _push(self, sealed: bytes) -> None:
        """Send, and queue what the kernel does not take."""
        sent = 0
        if not self._queue and sealed:
            sent = self._send(sealed)
        if sent < len(sealed):
            self._keep(sealed, sent)

    def _keep(self, sealed: bytes, sent: int) -> None:
        """Queue what is left of a frame, of which so many bytes have been sent."""
        if not self._queue:
            self._loop.add_writer(self._socket.fileno(), self._writable)
        self._queue.append(memoryview(sealed)[sent:])
        self._queue_bytes += len(sealed) - sent

    def _send(self, frame: bytes | memoryview) -> int:
        try:
            return self._socket.send(frame)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(frame)  # the link is broken, and `lost` is called when all is read

    def _too_slow(self) -> None:
        self._refuse(f"no proof of identity within {HANDSHAKE_TIMEOUT_S} s")

    def _refuse(self, reason: str) -> None:
        claimed_id = self.peer_id if self._handshake is None else self._handshake.claimed_id
        self._owner.refused(self, claimed_id, reason)

    # -- frames -------------------------------------------------------------------------------------

    def _take_frames(self) -> None:
        handled = False
        try:
            while not self._is_over and (frame := self._next_frame()) is not None:
                handled = self._take(frame[0]) or handled
        except Crossed:
            self._owner.crossed(self)
        except (BadMessage, Refused) as error:
            self._refuse(str(error))
        if handled:
            self._owner.activity()

    def _next_frame(self) -> tuple[Any] | None:
        buffer = self._buffer
        if len(buffer) < 4:
            self._needed = 4
            return None
        length = int.from_bytes(buffer[:4], "big")
        limit = FRAME_BYTES_MAX if self._handshake is None else HANDSHAKE_FRAME_BYTES_MAX
        if length > limit:
            if self._handshake is not None and buffer[:2] == TLS_GREETING:
                raise Refused("it speaks TLS, this replica does not")
            raise BadMessage(f"a frame of {length} bytes, at most {limit} are allowed")
        if len(buffer) < 4 + length:
            self._needed = 4 + length
            return None
        with memoryview(buffer) as view, view[4 : 4 + length] as body:
            message = _unpacked(body)
        del buffer[: 4 + length]
        return (message,)

    def _take(self, message: Any) -> bool:
        """Handle one frame. Return whether it was for Raft, and has left something to do."""
        if self._handshake is None:
            self.taken += 1
            return self.give(message) is not True
        answer = self._handshake.step(message)
        if answer is not None:
            self.write(msgpack.packb(answer))
        if self._handshake.peer_id is not None:
            self.peer_id = self._handshake.peer_id
            self.proven_at = self._loop.time()
            self._handshake = None
            self._deadline.cancel()
            self._owner.proven(self, self.peer_id)
        return False


def _nobody(message: Any) -> object:
    raise AssertionError("a link without handshake is proven")


def _unpacked(body: memoryview) -> Any:
    try:
        return msgpack.unpackb(body, use_list=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise BadMessage(f"{NOT_MSGPACK}: {error!r}") from None


def _tune(connection: socket.socket) -> None:
    connection.setblocking(False)
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_LINK_TIMEOUT_MS)


def _host_of(connection: socket.socket) -> str:
    """Return the address of the other side; empty for this host. Raises OSError."""
    name = connection.getpeername()
    return name[0] if isinstance(name, tuple) else ""
