"""One connection between two replicas: a plain socket on the loop's reader and writer callbacks.

Not asyncio's transports: a link has to end at once and for good when Raft or its host says so, and uvloop's
may neither tell their protocol nor give their descriptor back when they end while they are being made.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Any, Final, Protocol

import msgpack

from storage.errors import BadMessage
from storage.handshake import Handshake, Refused

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
QUEUE_BYTES_MAX: Final = 128 * 1024 * 1024
HANDSHAKE_FRAME_BYTES_MAX: Final = 1024
HANDSHAKE_TIMEOUT_S: Final = 2.0
READ_BYTES: Final = 256 * 1024
DEAD_LINK_TIMEOUT_MS: Final = 5_000
"""Sent and not acknowledged by the peer's kernel (TCP_USER_TIMEOUT): else a link that was cut for long
would come back only at the pace of TCP's own retries."""


class LinkOwner(Protocol):
    """Who is told what becomes of a link."""

    def proven(self, link: Link, peer_id: str) -> None:
        """The other side is who it says."""

    def received(self, peer_id: str, message: Any) -> None:
        """A message for Raft. Raises BadMessage."""

    def activity(self) -> None:
        """Messages of one read have been handled."""

    def refused(self, link: Link, peer_id: str | None, reason: str) -> None:
        """The link is to be closed, and why."""

    def lost(self, link: Link, *, closed_by_host: bool) -> None:
        """The other side, or the network, has ended it."""


class Link:
    """From its handshake to its end. All methods belong to the loop's thread."""

    def __init__(
        self,
        owner: LinkOwner,
        loop: asyncio.AbstractEventLoop,
        connection: socket.socket,
        handshake: Handshake,
    ) -> None:
        self.peer_id: str | None = None
        self.ended = asyncio.Event()
        self._owner = owner
        self._loop = loop
        self._socket = connection
        self._handshake: Handshake | None = handshake
        self._buffer = bytearray()
        self._needed = 4
        self._queue: deque[memoryview] = deque()
        self._queue_bytes = 0
        self._late_until = 0.0
        _tune(connection)
        loop.add_reader(connection.fileno(), self._readable)
        self._deadline = loop.call_later(HANDSHAKE_TIMEOUT_S, self._too_slow)
        if handshake.dials:
            self.write(msgpack.packb(handshake.opening()))

    def write(self, body: bytes) -> bool:
        """Send, or queue what the kernel does not take. False if the link has ended or its queue is full."""
        if self.ended.is_set():
            return False
        if self._queue_bytes + len(body) > QUEUE_BYTES_MAX:
            self._owner.refused(self, self.peer_id, f"more than {QUEUE_BYTES_MAX} bytes are not read")
            return False
        frame = memoryview(len(body).to_bytes(4, "big") + body)
        if not self._queue:
            frame = frame[self._send(frame) :]
            if not frame:
                return True
            self._loop.add_writer(self._socket.fileno(), self._writable)
        self._queue.append(frame)
        self._queue_bytes += len(frame)
        return True

    def write_later(self, body: bytes, delay_s: float) -> bool:
        """Only for injected faults; order is kept."""
        now = self._loop.time()
        if delay_s <= 0 and self._late_until <= now:
            return self.write(body)
        # Timers have a resolution of a millisecond; closer ones might change places.
        self._late_until = max(now + delay_s, self._late_until + 0.002)
        self._loop.call_at(self._late_until, self.write, body)
        return True

    def end(self) -> None:
        """Close it. May be called again."""
        if self.ended.is_set():
            return
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
            closed = isinstance(error, ConnectionResetError | BrokenPipeError)
            self._owner.lost(self, closed_by_host=closed)
            return
        if not data:
            self._owner.lost(self, closed_by_host=True)
            return
        self._buffer += data
        if len(self._buffer) >= self._needed:
            self._take_frames()

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

    def _send(self, frame: memoryview) -> int:
        try:
            return self._socket.send(frame)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(frame)  # it is broken: what came before its end is still to be read, then `lost`

    def _too_slow(self) -> None:
        claimed = self._handshake.claimed_id if self._handshake is not None else None
        self._owner.refused(self, claimed, f"no proof of identity within {HANDSHAKE_TIMEOUT_S} s")

    # -- frames -------------------------------------------------------------------------------------

    def _take_frames(self) -> None:
        handled = False
        try:
            while not self.ended.is_set() and (frame := self._next_frame()) is not None:
                handled = self._take(frame[0]) or handled
        except BadMessage as error:
            self._owner.refused(self, self.peer_id, str(error))
        except Refused as refused:
            claimed = self._handshake.claimed_id if self._handshake is not None else None
            self._owner.refused(self, claimed, str(refused))
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
        return (message,)

    def _take(self, message: Any) -> bool:
        """True if it was for Raft."""
        if self._handshake is None:
            assert self.peer_id is not None, "a link without handshake is proven"
            self._owner.received(self.peer_id, message)
            return True
        answer = self._handshake.step(message)
        if answer is not None:
            self.write(msgpack.packb(answer))
        if self._handshake.peer_id is not None:
            self.peer_id = self._handshake.peer_id
            self._handshake = None
            self._deadline.cancel()
            self._owner.proven(self, self.peer_id)
        return False


def _tune(connection: socket.socket) -> None:
    connection.setblocking(False)
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_LINK_TIMEOUT_MS)
