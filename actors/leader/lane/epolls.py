"""The two epolls in which a lane's sockets stand, and when they are looked at.

The loop watches the lively one, and wakes at once for each of its sockets. The calm one has connections
whose last requests were calm: repetitions of members who had been silent for much longer than a linger, or
rare commits. While many of these come, a timer looks at them all once a linger. To wake for each of them
would cost several times as much as to answer it.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Final

from actors.leader.lane.compiled import CALM_EVENTS_MAX, NEVER

CALM_LINGERS: Final = 2
"""After so many lingers a member is calm: whoever sends the next heartbeat as soon as the last one is
answered is not."""


class Epolls:
    """The epolls of one lane. `wake` and `look` serve what is ready in both, and return how many calm sockets
    were: one when the lively epoll wakes the loop, the other when a linger is over. `linger_ms` 0: no socket
    is calm."""

    def __init__(
        self, linger_ms: int, now_ms: Callable[[], int], wake: Callable[[], int], look: Callable[[], int]
    ) -> None:
        self._linger_ms = linger_ms
        self.calm_ms = CALM_LINGERS * linger_ms or NEVER
        """The least spacing of its heartbeats that makes a member calm."""
        self._now_ms = now_ms
        self._serve_wake, self._serve_look = wake, look
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        """What looks at the calm epoll next, which the loop does not watch meanwhile."""
        self._found_ms = 0
        """When something was found in the calm one last."""
        self._lively, self._calm = select.epoll(), select.epoll()
        self.descriptors = (self._lively.fileno(), self._calm.fileno())
        self._watch()
        self._loop.add_reader(self.descriptors[0], self._wake)

    @property
    def is_lingering(self) -> bool:
        """Return whether calm sockets wait for the end of a linger."""
        return self._timer is not None

    def add(self, descriptor: int) -> None:
        """Take in a socket, as a lively one."""
        self._lively.register(descriptor, select.EPOLLIN | select.EPOLLRDHUP)

    def remove(self, descriptor: int, *, is_calm: bool) -> None:
        """Let a socket go."""
        (self._calm if is_calm else self._lively).unregister(descriptor)

    def close(self) -> None:
        """Look at nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self.descriptors[0])
        self._lively.close()
        self._calm.close()

    def _watch(self) -> None:
        """Have the loop wake for calm sockets, too: their epoll is ready if one of them is."""
        self._lively.register(self.descriptors[1], select.EPOLLIN)

    def _wake(self) -> None:
        """Serve what is ready. If calm sockets were, a linger after the last ones at most, let the next ones
        gather, unless more have gathered already than one look takes: what is left goes first."""
        before_ms, ready = self._found_ms, self._serve_wake()
        if ready:
            self._found_ms = self._now_ms()
            if (
                self._timer is None
                and not self._lively.closed
                and self._found_ms - before_ms < self._linger_ms
                and ready < CALM_EVENTS_MAX
            ):
                self._lively.unregister(self.descriptors[1])
                self._look_later()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._linger_ms / 1000, self._look)

    def _look(self) -> None:
        """Serve what has gathered. If that is nothing, or too much for one look, the loop watches again."""
        self._timer = None
        ready = self._serve_look()
        if ready:
            self._found_ms = self._now_ms()
        if self._lively.closed:
            return
        if 0 < ready < CALM_EVENTS_MAX:
            self._look_later()
        else:
            self._watch()
