"""One connection to a machine's agent, over which questions are asked and answered by number.

The connection is made when it is first needed, and anew after it broke. What was asked over one that broke
is lost: it may have been carried out. A machine that does not take the connection is not tried again for a
moment, so that nobody waits for the dead at every question.
"""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count
from typing import Any, Final

from actors.ground.calls import ActorCallError, ActorGoneError
from actors.machines.frames import Frames, greet

CONNECT_TIMEOUT_S: Final = 1.0
AGAIN_AFTER_S: Final = 0.5
"""How long, in seconds, a machine that could not be reached is left alone."""
ASKED_MAX: Final = 10_000
"""How many questions may wait for their answers on one connection."""

OK: Final = "ok"
GONE: Final = "gone"
TAKEN: Final = "taken"
FAILED: Final = "failed"
LATE: Final = "late"
"""The kinds of answers; all but OK carry a text."""

Answer = tuple[str, Any]
"""(kind, value) of an answer."""


class MachineUnreachable(ActorCallError):
    """Raised if a machine cannot be asked, so that nothing was done; the text says why."""


class Link:
    """The way to one machine's agent. All calls are made on one loop."""

    def __init__(self, address: str, secret: bytes) -> None:
        self.address = address
        self._secret = secret
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._frames: Frames | None = None
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._not_before = 0.0
        self._why = ""

    async def ask(self, op: str, *args: Any, timeout_s: float) -> Any:
        """Return the value of an answer. Raises MachineUnreachable, TimeoutError, ActorCallError if the
        connection broke meanwhile, and what `told` raises."""
        async with asyncio.timeout(timeout_s):
            frames = await self._connected()
            if len(self._asked) >= ASKED_MAX:
                raise MachineUnreachable(f"{ASKED_MAX} questions wait for {self.address}")
            number = next(self._numbers)
            answer = self._asked[number] = asyncio.get_running_loop().create_future()
            try:
                frames.send((number, op, args))
                return told(await answer)
            finally:
                self._asked.pop(number, None)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._drop("the link is closed")

    async def _connected(self) -> Frames:
        async with self._connecting:
            if self._frames is not None:
                return self._frames
            loop = asyncio.get_running_loop()
            if loop.time() < self._not_before:
                raise MachineUnreachable(self._why)
            try:
                frames = await self._connect()
            except (OSError, TimeoutError) as error:
                # Any of these may be a machine that is on its way up.
                self._why = f"machine {self.address} does not answer: {str(error) or 'nothing came back'}"
                self._not_before = loop.time() + AGAIN_AFTER_S
                raise MachineUnreachable(self._why) from None
            self._frames = frames
            self._reading = asyncio.ensure_future(self._read(frames))
            return frames

    async def _connect(self) -> Frames:
        host, _, port = self.address.rpartition(":")
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        try:
            return await greet(reader, writer, self._secret)
        except BaseException:
            writer.close()
            raise

    async def _read(self, frames: Frames) -> None:
        why = "it closed the connection"
        try:
            while True:
                number, kind, value = await frames.receive()
                answer = self._asked.get(number)
                if answer is not None and not answer.done():
                    answer.set_result((kind, value))
        except (OSError, asyncio.IncompleteReadError) as error:
            why = str(error) or why
        finally:
            if self._frames is frames:
                self._drop(why)

    def _drop(self, why: str) -> None:
        if self._frames is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._frames.close()
            self._frames = None
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ActorCallError(f"machine {self.address}: {why}"))


def told(answer: Answer) -> Any:
    """Return the value of an answer. Raises ActorCallError, ActorGoneError, TimeoutError, and ValueError for
    a name that is taken."""
    kind, value = answer
    if kind == OK:
        return value
    raise {GONE: ActorGoneError, TAKEN: ValueError, LATE: TimeoutError}.get(kind, ActorCallError)(value)


def answer_of(error: Exception) -> Answer:
    """Return the answer that lets `told` raise the same on the other side."""
    kinds = {ActorGoneError: GONE, ValueError: TAKEN, TimeoutError: LATE}
    kind = next((kind for each, kind in kinds.items() if isinstance(error, each)), FAILED)
    return kind, str(error) or type(error).__name__
