"""How long clients' requests may keep an actor's loop to themselves, over all of its connections.

A loop reads every socket that has something before it comes round to its timers, its peers' links and its
callbacks. With more requests than can be served, each round would bring more of them than the last one and
take longer, until a leader that is well is late with its heartbeats and is taken for dead. So a round ends
after a while: a connection that has requests left then waits in a queue, is served a piece in each of the
next rounds, and is read no further before that.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from actors.ground.limits import ROUND_MS_MAX

FRAMES_PER_LOOK: Final = 32
"""How many frames are served between two looks at the clock: a few hundred microseconds of heartbeats, some
milliseconds of the heaviest requests."""


class Waiting(Protocol):
    """A connection that has frames to serve in a later round."""

    def take_turn(self) -> None:
        """Serve frames for as long as the pace allows."""


class Pace:
    """The pace of one actor's connections. `clock` tells seconds; a round may take `round_ms`."""

    __slots__ = ("_clock", "_loop", "_round_began_at", "_round_s", "_waiting", "frames_left")

    def __init__(
        self, loop: AbstractEventLoop, clock: Callable[[], float], round_ms: int = ROUND_MS_MAX
    ) -> None:
        self.frames_left = FRAMES_PER_LOOK
        """How many frames may be served before `may_go_on` is asked; whoever serves a frame takes one."""
        self._loop = loop
        self._clock = clock
        self._round_s = round_ms / 1000
        self._round_began_at: float | None = None
        """When the next round was asked for, if it has not come yet."""
        self._waiting: deque[Waiting] = deque()

    def may_go_on(self) -> bool:
        """Return whether more frames may be served in this round; if not, `wait` is for a later one."""
        if self._waiting:
            return False  # the requests of those that wait came first
        now = self._clock()
        if self._round_began_at is None:
            self._ask_for_round(now)
        elif now - self._round_began_at >= self._round_s:
            return False
        self.frames_left = FRAMES_PER_LOOK
        return True

    def wait(self, connection: Waiting) -> None:
        """Have `connection.take_turn` called in a later round."""
        self._waiting.append(connection)
        if self._round_began_at is None:
            self._ask_for_round(self._clock())

    def _ask_for_round(self, now: float) -> None:
        self._round_began_at = now
        self._loop.call_soon(self._next_round)

    def _next_round(self) -> None:
        """Serve the connections that wait, after timers, links and other callbacks."""
        self._round_began_at = None
        if not self._waiting:
            return
        now = began_at = self._clock()
        self._ask_for_round(now)
        for _ in range(len(self._waiting)):
            if now - began_at >= self._round_s:
                break
            self.frames_left = FRAMES_PER_LOOK
            self._waiting.popleft().take_turn()
            now = self._clock()
        self.frames_left = 0  # what is read in this round comes behind those that wait
