"""One link between a broker and a replica of its node: messages and sockets over a Unix socket.

A message is a msgpack array whose first item is its kind, in a frame as Kafka's (4-byte length). A socket
goes with a message (SCM_RIGHTS), or several do where the other side is known to take them. The kernel
delivers them with the message's first byte and never merges what follows a socket with another one, so
sockets arrive in the order of their messages.

Both ends relay requests to each other; that part lives here. greeting.py decides who may speak.
"""

from __future__ import annotations

import array
import asyncio
import enum
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, Protocol

import msgpack

from actors.ground.identity import ClientIdentity
from actors.ground.limits import LINK_FRAME_BYTES_MAX, LINK_GREETING_BYTES_MAX, LINK_QUEUE_BYTES_MAX
from actors.network.frames import BadFrame, FrameBuffer, with_length
from actors.network.lending import PlainSocket, cut_off

logger = logging.getLogger(__name__)

Answer = Callable[[bytes | None], None]
"""A function that takes the answer of a relayed frame, once. None says that there is no answer, and that the
client's connection is to be closed."""

READ_BYTES: Final = 64 * 1024
READS_PER_ROUND_MAX: Final = 64
"""How often a channel reads before the loop goes on. Each read brings one socket at most, so that a storm of
clients who connect would cost the loop a round, and the replica a turn, for each of them."""
BUFFERS_PER_SEND: Final = 64
SOCKETS_PER_MESSAGE: Final = 64
"""How many sockets one message carries at most; the kernel's own bound is 253."""
_SOCKET_BYTES = array.array("i", [0]).itemsize
_RIGHTS_BYTES = socket.CMSG_SPACE(SOCKETS_PER_MESSAGE * _SOCKET_BYTES)


class Kind(enum.IntEnum):
    """The kinds of message. Their numbers are on the wire between actors of different versions, and never
    reused."""

    CHALLENGE = 1
    HELLO = 2
    WELCOME = 3
    LEADING = 4
    RELAY = 5
    RELAYED = 6
    HANDOVER = 7
    """The kind of a message that carries a socket, in either direction."""
    ADOPTED = 8
    GONE = 9
    PUSH = 10
    HANDOVERS = 11
    """The kind of a message that carries several sockets. Older releases do not know it."""


class ChannelHandlers(Protocol):
    """What a channel's owner does with what comes in."""

    def on_message(self, message: list[Any]) -> None:
        """Take any message but those below. May raise ValueError (and what unpacking raises): the link
        drops."""

    def on_socket(self, sock: socket.socket | None, identity: ClientIdentity, buffered: bytes) -> None:
        """Take a client's connection that is handed over; None: it did not arrive (no descriptor left
        here)."""

    def on_relay(self, identity: ClientIdentity, frame: bytes, answer: Answer) -> None:
        """Serve a frame and call `answer`, at once or later."""

    def on_lost(self, reason: str) -> None:
        """Learn that the link is down, and that all relays asked on it have been answered None. Called
        once."""


class Channel:
    """Framed, bounded, non-blocking messages over a connected Unix socket; its owner closes it.

    Until `opened` is called only small messages are read and relays and sockets are refused.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, handlers: ChannelHandlers
    ) -> None:
        self.open = False
        self.takes_many = False
        """Whether the other side takes messages with several sockets."""
        self._loop = loop
        self._sock = sock
        self._handlers = handlers
        self._frames = FrameBuffer(LINK_GREETING_BYTES_MAX, frame_bytes_min=1)
        self._packer = _new_packer()
        self._received: deque[list[socket.socket | None]] = deque()
        """The sockets of messages that are still to come; of one that has lost some, those that came."""
        self._unsent: deque[tuple[memoryview, Sequence[socket.socket]]] = deque()
        self._unsent_bytes = 0
        self._together: list[tuple[socket.socket, tuple[Any, ...], bytes]] = []
        """The connections that go with the next message; they are given before anything else is sent."""
        self._together_bytes = 0
        self._flush_scheduled = False
        self._writing = False
        self._closed = False
        self._next_relay = 0
        self._relays: dict[int, tuple[Answer, asyncio.TimerHandle]] = {}
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._readable)

    def opened(self) -> None:
        """Note that the other side has proved itself: large messages are read, and relays and sockets
        taken."""
        self.open = True
        self._frames.frame_bytes_max = LINK_FRAME_BYTES_MAX

    def send(self, message: tuple[Any, ...], sock: socket.socket | None = None) -> bool:
        """Queue a message. Return False if the link is down, and `sock` still the caller's; otherwise the
        socket is closed here once the kernel has it (or the link is lost)."""
        if self._together:
            self._give_together()
        return self._queue(message, () if sock is None else (sock,))

    def _queue(self, message: tuple[Any, ...], socks: Sequence[socket.socket]) -> bool:
        if self._closed:
            return False
        packed = with_length(self._packer.pack(message))
        if len(packed) > READ_BYTES:
            self._packer = _new_packer()  # the old one would keep that much memory for ever
        if self._unsent_bytes + len(packed) > LINK_QUEUE_BYTES_MAX:
            self.close(f"more than {LINK_QUEUE_BYTES_MAX} bytes are unsent")
            return False
        self._unsent.append((memoryview(packed), socks))
        self._unsent_bytes += len(packed)
        self._flush_soon()
        return True

    def _flush_soon(self) -> None:
        if not self._flush_scheduled and not self._writing:
            # Flush when the loop comes round: what is sent until then goes out in one system call.
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def hand_over(self, sock: socket.socket, identity: ClientIdentity, buffered: bytes) -> bool:
        """Give a client's connection to the other side, together with others that are given in this round of
        the loop if it takes several. Return what `send` does."""
        if not self.takes_many:
            return self.send((Kind.HANDOVER, tuple(identity), buffered), sock)
        if self._closed:
            return False
        is_full = self._together_bytes + len(buffered) > READ_BYTES
        if self._together and (is_full or len(self._together) == SOCKETS_PER_MESSAGE):
            self._give_together()
        self._together.append((sock, tuple(identity), buffered))
        self._together_bytes += len(buffered)
        self._flush_soon()
        return True

    def _give_together(self) -> None:
        """Queue one message with the connections that were given since the last one."""
        together, self._together, self._together_bytes = self._together, [], 0
        socks = [sock for sock, _, _ in together]
        if not self._queue((Kind.HANDOVERS, [given[1:] for given in together]), socks):
            for sock in socks:
                sock.close()

    def relay(self, identity: ClientIdentity, frame: bytes, answer: Answer, timeout_s: float) -> None:
        """Have the other side serve `frame`. `answer` is called once: with None at once when the link is
        lost, or after `timeout_s`."""
        relay_id = self._next_relay = self._next_relay + 1
        if not self.send((Kind.RELAY, relay_id, tuple(identity), frame)):
            answer(None)
            return
        timer = self._loop.call_later(timeout_s, self._relayed, relay_id, None)
        self._relays[relay_id] = (answer, timer)

    def close(self, reason: str) -> None:
        """Drop the link. Sockets not yet sent are closed: their clients connect again."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        unsent = chain([given[0] for given in self._together], *(socks for _, socks in self._unsent))
        for sock in chain(unsent, *self._received):
            if sock is not None:
                sock.close()
        self._received.clear()
        self._unsent.clear()
        self._together.clear()
        for relay_id in tuple(self._relays):
            self._relayed(relay_id, None)
        self._handlers.on_lost(reason)

    def cut_off(self) -> None:
        """End the link from another thread than the loop's, which hangs and finds the end when it goes on."""
        cut_off(self._sock)

    # Sending.

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._together:
            self._give_together()
        if self._closed:
            return
        try:
            while self._unsent:
                self._send_some()
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._sock.fileno(), self._flush)
            return
        except OSError as error:
            self.close(f"send failed: {error.strerror}")
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock.fileno())

    def _send_some(self) -> None:
        """Send by one system call: the message with sockets at the head, or those without any before the
        next."""
        view, socks = self._unsent[0]
        if socks:
            rights = array.array("i", [sock.fileno() for sock in socks])
            sent = self._sock.sendmsg([view], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            # However few bytes went, the sockets went with the first. The kernel holds them now, so that
            # closing our descriptors ends nothing.
            for sock in socks:
                sock.close()
            self._unsent[0] = (view, ())
        else:
            batch = []
            for position in range(min(len(self._unsent), BUFFERS_PER_SEND)):
                view, socks = self._unsent[position]
                if socks:
                    break
                batch.append(view)
            sent = self._sock.sendmsg(batch)
        self._unsent_bytes -= sent
        while sent:
            view, _ = self._unsent[0]
            if sent < len(view):
                self._unsent[0] = (view[sent:], ())
                break
            sent -= len(view)
            self._unsent.popleft()

    # Receiving.

    def _readable(self) -> None:
        for _ in range(READS_PER_ROUND_MAX):
            if self._closed or not self._read():
                return

    def _read(self) -> bool:
        """Read once, and dispatch what has come. Return whether there may be more."""
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(READ_BYTES, _RIGHTS_BYTES, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.close(f"receive failed: {error.strerror}")
            return False
        taken = False
        for level, kind, rights in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and len(rights) >= _SOCKET_BYTES:
                self._received.append(_sockets_of(rights))
                taken = True
        if not taken and flags & socket.MSG_CTRUNC:
            # No descriptor was free: the kernel has closed the client's connection. Its message still comes.
            self._received.append([])
        if not data:
            self.close("closed by the other side")
            return False
        self._frames.feed(data)
        self._dispatch_all()
        if self._received and not self.open and not self._closed:
            self.close("a socket was sent before the greeting was over")
        # Only a read that brought a socket ends before the bytes do.
        return taken or len(data) == READ_BYTES

    def _dispatch_all(self) -> None:
        try:
            while not self._closed:
                frame = self._frames.next()
                if frame is None:
                    return
                message = msgpack.unpackb(frame, unicode_errors="surrogateescape")
                self._dispatch(Kind(message[0]), message)
        except (
            BadFrame,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            msgpack.UnpackException,
        ) as error:
            self.close(f"message not understood: {error}")

    def _dispatch(self, kind: Kind, message: list[Any]) -> None:
        if kind is Kind.RELAYED:
            self._relayed(int(message[1]), message[2])
        elif kind is Kind.RELAY and self.open:
            _, relay_id, identity, frame = message
            self._serve(relay_id, ClientIdentity(*identity), frame)
        elif kind is Kind.HANDOVER and self.open:
            _, fields, buffered = message
            self._take(self._received.popleft(), [(fields, buffered)])
        elif kind is Kind.HANDOVERS and self.open:
            self._take(self._received.popleft(), message[1])
        elif kind in (Kind.RELAY, Kind.HANDOVER, Kind.HANDOVERS):
            raise ValueError("sent before the greeting was over")
        else:
            self._handlers.on_message(message)

    def _take(self, socks: list[socket.socket | None], given: Sequence[tuple[list[Any], bytes]]) -> None:
        """Take the connections of one message, the first of which have sockets: if too few descriptors were
        free here, the kernel has closed the others."""
        for (fields, buffered), sock in zip_longest(given, socks[: len(given)]):
            if not guarded(self._handlers.on_socket, sock, ClientIdentity(*fields), buffered) and sock:
                sock.close()
        for sock in socks[len(given) :]:
            if sock is not None:
                sock.close()

    def _serve(self, relay_id: int, identity: ClientIdentity, frame: bytes) -> None:
        def answer(answered: bytes | None) -> None:
            self.send((Kind.RELAYED, relay_id, answered))

        guarded(self._handlers.on_relay, identity, frame, answer)

    def _relayed(self, relay_id: int, answered: bytes | None) -> None:
        waiting = self._relays.pop(relay_id, None)
        if waiting is None:
            return  # it took too long, and whoever asked has gone on
        answer, timer = waiting
        timer.cancel()
        guarded(answer, answered)


def guarded(handler: Callable[..., None], *arguments: Any) -> bool:
    """Call a handler of the link's owner. Return False if it raised, which is logged. A bug of ours must not
    cost the link, which carries all other clients of the node."""
    try:
        handler(*arguments)
    except Exception:
        logger.exception("a message of a node's link could not be served")
        return False
    return True


def _new_packer() -> msgpack.Packer:
    return msgpack.Packer(unicode_errors="surrogateescape")


def _sockets_of(rights: bytes) -> list[socket.socket | None]:
    descriptors = array.array("i")
    descriptors.frombytes(rights[: len(rights) - len(rights) % _SOCKET_BYTES])
    return [_socket_of(descriptor) for descriptor in descriptors]


def _socket_of(descriptor: int) -> socket.socket | None:
    try:
        sock = PlainSocket(fileno=descriptor)
    except OSError:
        os.close(descriptor)  # it is no socket: the message that it came with finds none
        return None
    sock.setblocking(False)
    return sock
