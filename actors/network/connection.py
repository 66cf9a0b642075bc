"""One client connection in an actor: frames come in and answers go out, in order and within bounds.

Law (W13): one request is with the service at a time; what the client pipelined behind it waits in the
buffer. The service answers at once (`on_frame` returns the answer) or later (it returns LATER and calls
`answer`). Answers that are given at once for several pipelined frames leave in one write.

Reading stops when too much is read ahead or when the client does not take its answers. A connection can
be released: its socket, with all bytes read and not served, goes to another actor, and no byte is lost or
answered twice.

Not here: what a frame means, and who may connect (listener.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from actors.ground.identity import ClientIdentity
from actors.ground.limits import (
    CONNECTION_BUFFER_BYTES_MAX,
    FRAMES_PER_TURN_MAX,
    QUEUED_BYTES_MAX,
    WRITE_BUFFER_BYTES_MAX,
)
from actors.network.frames import FRAME_BYTES_MIN, LENGTH_BYTES, BadFrame, FrameBuffer, length_of, with_length
from actors.network.lending import Reader, Released, Table, duplicate

logger = logging.getLogger(__name__)

LATER: Final = None
"""What `on_frame` returns when the answer follows by `Connection.answer`."""

_CHUNK_BYTES_MIN = LENGTH_BYTES + FRAME_BYTES_MIN

# The states. READY is 0 so that the hot path asks one question: nothing is buffered or outstanding.
_READY, _PARTIAL, _RUNNING, _WAITING, _CLOSING, _LEAVING, _CLOSED = range(7)


class Service(Protocol):
    """What serves the frames of connections. One object serves many connections."""

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        """Serve one frame (its length cut off). Return the whole answer, length included, or b"" for no
        answer at all (Produce with acks=0), or LATER. May call `connection.close` or `connection.release`; an
        answer that it returns besides still goes out first."""

    def on_more(self, connection: Connection) -> None:
        """Give a held answer, if there is one: bytes came in while an answer is outstanding."""

    def on_closed(self, connection: Connection) -> None:
        """Learn, exactly once, that the connection is gone; never for one that was released."""


class Connection(asyncio.Protocol):
    """A client's connection, made by `ConnectionTable.adopt`. All calls are on the loop's thread."""

    __slots__ = (
        "_chunk_bytes_max",
        "_close_reason",
        "_early_answer",
        "_frames",
        "_lent_to",
        "_on_frame",
        "_pace",
        "_quiet_sweeps",
        "_read_paused",
        "_released",
        "_service",
        "_state",
        "_table",
        "_transport",
        "_turn_scheduled",
        "_write",
        "_write_paused",
        "active",
        "channel",
        "holding",
        "identity",
        "known",
        "sasl",
        "session",
    )

    def __init__(self, table: Table, service: Service, identity: ClientIdentity, buffered: bytes) -> None:
        self.identity = identity
        self.session: Any = None
        self.known: Any = None
        self.sasl: Any = None
        """What the service keeps of this connection, which looks at none of the three."""
        self.holding: Any = None
        """What the service knows of a client whose heartbeats it may hold."""
        self.channel: Any = None
        """What the service knows of a consumer to whom its coordinator sends requests on this connection."""
        self.active = True
        """Whether a frame was served since the last sweep."""
        self._table = table
        self._pace = table.pace
        self._service = service
        self._on_frame = service.on_frame
        frame_bytes_max = table.limits.frame_bytes_max
        self._frames = FrameBuffer(frame_bytes_max)
        self._frames.feed(buffered)
        self._chunk_bytes_max = frame_bytes_max + LENGTH_BYTES
        self._state = _PARTIAL
        self._early_answer: bytes | None = None
        self._close_reason: str | None = None
        self._released: Released | None = None
        self._lent_to: Reader | None = None
        """Who reads the socket; None: the loop does."""
        self._read_paused = False
        self._write_paused = False
        self._turn_scheduled = False
        self._quiet_sweeps = 0
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] = _drop

    # What the service calls.

    def answer(self, frame: bytes) -> None:
        """Give the answer (length included; b"" for none) of the frame for which LATER was returned. Do
        nothing if the connection is gone meanwhile."""
        if self._state == _WAITING:
            self.active = True
            is_done = self._released is None and not self._frames.kept
            self._state = _READY if is_done else _PARTIAL
            if frame:
                self._write(frame)
            if not is_done:
                self._go_on()
            elif self._lent_to is not None:
                self._lent_to.is_ready()
        elif self._state == _RUNNING:
            self._early_answer = frame
        else:
            assert self._state >= _CLOSING, "an answer to no request"

    def push(self, frame: bytes) -> bool:
        """Send a frame (length included) that is no answer. Return False if the connection is about to go;
        one whose client does not read what it is sent is closed."""
        if self._state >= _CLOSING or self._released is not None or self._transport is None:
            return False
        if self._write_paused:
            self.close("it does not read what its coordinator sends")
            return False
        self.take_back()  # the reader may hold an answer
        self._write(frame)
        return True

    def close(self, reason: str | None = None) -> None:
        """Close after what is written so far. If there is a reason, a line of the log has it and the peer."""
        if self._state == _RUNNING:
            self._close_reason = reason
            self._state = _CLOSING
        elif self._state not in (_CLOSING, _CLOSED):
            self._close_reason = reason
            self._close_now()

    def release(self, released: Released, unserved: bytes | None = None) -> None:
        """Stop serving and give the socket away, once all answers are written. `unserved` is the frame now
        with the service, if whoever takes the connection shall serve it. `released(socket, buffered)` is
        called once, perhaps before this returns, unless the client closes first (`on_closed`)."""
        if self._state in (_CLOSING, _LEAVING, _CLOSED) or self._released is not None:
            return
        if self._state == _READY:
            self.take_back()  # the reader may hold an answer
        self._released = released
        if self._state == _WAITING and unserved is None:
            return  # `answer` departs
        if unserved is not None:
            assert self._state in (_RUNNING, _WAITING), "an unserved frame that was never handed out"
            rest = self._frames.drain()
            self._frames.feed(with_length(unserved) + rest)
        if self._state == _RUNNING:
            if unserved is not None:
                self._state = _LEAVING
            return  # `_run` departs after writing its answers
        self._state = _LEAVING
        self._depart()

    def lend(self, reader: Reader) -> int | None:
        """Have `reader` read the socket and give what it does not answer to `data_received`, until it hears
        `taken_back`. Return the descriptor; None: whoever reads has to read on, because more came already."""
        transport, is_parting = self._transport, self._released is not None or self._state >= _CLOSING
        is_busy = self._read_paused or self._turn_scheduled or self._frames.kept or self._lent_to is not None
        if transport is None or transport.is_closing() or is_parting or is_busy or self.channel is not None:
            return None
        transport.pause_reading()
        self._lent_to = reader
        descriptor: int = transport.get_extra_info("socket").fileno()
        return descriptor

    def take_back(self, unsent: bytes = b"") -> None:
        """Have the loop read again. `unsent` is what the socket did not take of the reader's answer."""
        if self._lent_to is not None:
            self._end_loan()
            if unsent:
                self._write(unsent)
            if self._transport is not None and not (self._transport.is_closing() or self._read_paused):
                self._transport.resume_reading()

    def owe(self) -> None:
        """Expect an answer to a frame that the reader has taken."""
        if self._state == _READY:
            self._state = _WAITING

    @property
    def is_quiet(self) -> bool:
        """Return whether all that came is served, and all answers are sent."""
        transport = None if self._state else self._transport
        return not (transport is None or transport.is_closing() or transport.get_write_buffer_size())

    @property
    def has_more(self) -> bool:
        """Return whether more has been read than the frame that is with the service."""
        return bool(self._frames.kept)

    @property
    def closed(self) -> bool:
        return self._state == _CLOSED

    # What the loop calls.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self._state == _CLOSED:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._write = transport.write
        if self._released is not None:
            self._go_on()
            return
        self._state = _READY
        if buffered := self._frames.drain():
            self.data_received(buffered)  # as if it had been read here: it is one frame, nearly always

    def data_received(self, data: bytes) -> None:
        # The hot path: one whole frame in one read, answered at once. Everything else is in `_take`.
        pace = self._pace
        if (
            not self._state
            and _CHUNK_BYTES_MIN <= len(data) <= self._chunk_bytes_max
            and length_of(data)[0] == len(data) - 4
            and (pace.frames_left or pace.may_go_on())
        ):
            pace.frames_left -= 1
            self._state = _RUNNING
            self.active = True
            try:
                answer = self._on_frame(self, data[4:])
            except Exception:
                self._fail()
                self._act_on_state()
                return
            if answer is not None and self._state == _RUNNING and self._released is None:
                self._state = _READY
                if answer:
                    self._write(answer)
            elif answer is None and self._state == _RUNNING and self._early_answer is None:
                self._state = _WAITING
            else:
                self._conclude(answer)
            return
        self._take(data)

    def pause_writing(self) -> None:
        self._write_paused = True
        self._pace_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        # Nothing departs in here: asyncio calls this in the midst of a write, and reports the loss twice.
        if self._state == _LEAVING:
            self._table.loop.call_soon(self._act_on_state)
        elif self._state == _PARTIAL and self._frames.kept:
            self._schedule_turn()
        self._pace_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_loan()
        was_released = self._state == _CLOSED and self._released is not None
        self._state = _CLOSED
        self._write = _drop
        self._transport = None
        self._table.forget(self)
        if not was_released:
            self._table.gone(self.identity)
            self._service.on_closed(self)

    # What the table and the pace call.

    def sweep(self, quiet_sweeps_max: int) -> None:
        """Advance the idle clock: `quiet_sweeps_max` steps without a served frame close the connection
        (`connections.max.idle.ms`), one closes the socket of a closed one whose client does not read."""
        lent_to = self._lent_to
        if self.active or self._state == _WAITING or (lent_to is not None and lent_to.has_spoken()):
            self.active, self._quiet_sweeps = False, 0
            return
        self._quiet_sweeps += 1
        if self._state == _CLOSED or self._quiet_sweeps >= quiet_sweeps_max:
            self._end_loan()
            self._state = _CLOSED
            self._released = None
            if self._transport is not None:
                self._transport.abort()

    def take_turn(self) -> None:
        """Serve what waits here, for as long as `Pace.frames_left` says."""
        self._turn_scheduled = False
        if self._state == _PARTIAL:
            self._run()

    # Parts of the above.

    def _take(self, data: bytes) -> None:
        if self._state in (_CLOSING, _CLOSED):
            return
        self._frames.feed(data)
        if self._state == _LEAVING:
            return
        self._state = self._state or _PARTIAL  # not READY any more
        if self._state == _WAITING:
            try:
                self._service.on_more(self)
            except Exception:
                self._fail()
            self._act_on_state()
        elif not self._turn_scheduled:
            self._run()
        else:
            self._pace_reading()

    def _run(self) -> None:
        """Serve buffered frames until one has to wait, then write all their answers at once."""
        answers: list[bytes] = []
        unwritten_bytes = 0
        pace = self._pace
        for _ in range(FRAMES_PER_TURN_MAX):
            if self._write_paused:
                break
            if not pace.frames_left and not pace.may_go_on():
                self._schedule_turn()
                break
            frame = self._next_frame()
            if frame is None:
                break
            pace.frames_left -= 1
            answer = self._serve(frame)
            if answer:
                answers.append(answer)
                unwritten_bytes += len(answer)
                if unwritten_bytes > CONNECTION_BUFFER_BYTES_MAX:
                    self._write_all(answers)
                    unwritten_bytes = 0
            if self._state != _PARTIAL:
                break
        else:
            self._schedule_turn()
        self._write_all(answers)
        self._act_on_state()

    def _next_frame(self) -> bytes | None:
        try:
            return self._frames.next()
        except BadFrame as bad:
            self._close_reason = str(bad)
            self._state = _CLOSING
            return None

    def _serve(self, frame: bytes) -> bytes | None:
        """Hand one frame to the service. Afterwards the state is PARTIAL if the next frame may follow."""
        self._state = _RUNNING
        self.active = True
        try:
            answer = self._on_frame(self, frame)
        except Exception:
            self._fail()
            return None
        return self._served(answer)

    def _served(self, answer: bytes | None) -> bytes | None:
        if answer is None:
            answer, self._early_answer = self._early_answer, None
        if self._state != _RUNNING:
            return answer
        if answer is None:
            self._state = _WAITING
        elif self._released is not None:
            self._state = _LEAVING
        else:
            self._state = _PARTIAL
        return answer

    def _conclude(self, answer: bytes | None) -> None:
        """Go on after the hot path's frame was answered otherwise than at once, or led to a parting."""
        answer = self._served(answer)
        if answer:
            self._write(answer)
        self._act_on_state()

    def _fail(self) -> None:
        # A bug of ours must cost one connection and one log entry, not the actor.
        logger.exception("closed %s: its request could not be served", self.identity.peer)
        self._close_reason = None
        self._state = _CLOSING

    def _write_all(self, answers: list[bytes]) -> None:
        if answers:
            self._write(answers[0] if len(answers) == 1 else b"".join(answers))
            answers.clear()

    def _act_on_state(self) -> None:
        """Act on the state in which the frames that were served have left the connection."""
        if self._state == _CLOSING:
            self._close_now()
        elif self._state == _LEAVING:
            self._depart()
        else:
            if self._state == _PARTIAL and not self._frames.kept:
                self._state = _READY
                if self._lent_to is not None:
                    self._lent_to.is_ready()
            self._pace_reading()

    def _schedule_turn(self) -> None:
        if self._frames.kept and not self._turn_scheduled:
            self._turn_scheduled = True
            self._pace.wait(self)

    def _pace_reading(self) -> None:
        """Read on unless that would only pile up bytes; an incomplete frame needs its rest, however big."""
        if self._transport is None or self._state >= _CLOSING:
            return
        pause = self._write_paused
        if not pause and (self._turn_scheduled or self._state == _WAITING):
            bound = QUEUED_BYTES_MAX if self._turn_scheduled else CONNECTION_BUFFER_BYTES_MAX
            pause = len(self._frames) > bound
        if pause != self._read_paused:
            self._read_paused = pause
            self._end_loan()  # nobody reads then
            (self._transport.pause_reading if pause else self._transport.resume_reading)()

    def _end_loan(self) -> None:
        reader, self._lent_to = self._lent_to, None
        if reader is not None:
            reader.taken_back()

    def _close_now(self) -> None:
        self._end_loan()
        self._state = _CLOSED
        self._released = None
        self._write = _drop
        self.active = False
        if self._close_reason is not None:
            logger.warning("closed %s: %s", self.identity.peer, self._close_reason)
        if self._transport is not None:
            self._transport.close()

    def _go_on(self) -> None:
        """Go on after an answer: leave if that was asked for, else serve the next frame."""
        if self._released is not None:
            self._state = _LEAVING
            self._depart()
        else:
            self._run()

    def _depart(self) -> None:
        """Leave: once the transport has written everything, give the socket away."""
        transport = self._transport
        assert self._released is not None
        if transport is None or transport.is_closing():
            return  # before connection_made, or the client closed first: connection_lost follows
        self._end_loan()
        transport.pause_reading()
        if transport.get_write_buffer_size():
            # The low-water mark becomes 0 too, so that resume_writing means: all is written.
            transport.set_write_buffer_limits(high=0)
            return
        try:
            own = duplicate(transport.get_extra_info("socket"))
        except OSError as error:
            self._close_reason = f"its socket could not be handed on: {error}"
            self._close_now()
            return
        self._state = _CLOSED
        # Neither uvloop nor asyncio shuts the connection down: it lives on by the duplicate.
        transport.abort()
        self._table.forget(self)
        self._released(own, self._frames.drain())


def _drop(frame: bytes) -> None:
    """Drop a frame, in the place of `transport.write`, while there is no transport."""
