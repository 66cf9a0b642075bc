"""A heartbeat that is on its way while its member does other things: its answer may be held by the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent

from bench.swarm.members.asking import CoordinatorLost, GaveUp, NotYet
from bench.swarm.wire.connection import Closed, TimedOut
from cluster.tier_file import TierError


class Flight:
    """Asks at once; `landed` is called when there is an answer, or will be none."""

    def __init__(self, epoch: int, ask: Callable[[], Any], landed: Callable[[], None]) -> None:
        self.epoch = epoch
        """The epoch of the member that asked: an answer to another is none for this one."""
        self._value: Any = None
        self._error: Exception | None = None
        self._greenlet = gevent.spawn(self._fly, ask, landed)

    @property
    def has_landed(self) -> bool:
        return bool(self._greenlet.ready())

    def wait(self, timeout_s: float | None = None) -> None:
        """Until it has landed."""
        self._greenlet.join(timeout_s)

    def result(self) -> Any:
        """The answer to a heartbeat that has landed. Raises what asking raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def drop(self) -> None:
        """Nobody waits for the answer any more."""
        self._greenlet.kill(block=True)

    def _fly(self, ask: Callable[[], Any], landed: Callable[[], None]) -> None:
        try:
            self._value = ask()
        except (CoordinatorLost, NotYet, GaveUp, Closed, TimedOut, TierError) as error:
            self._error = error
        landed()
