"""A heartbeat that is on its way while its member does other things: its answer may be held by the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent

from bench.swarm.members.asking import CoordinatorLost, GaveUp, NotYet
from bench.swarm.wire.connection import Closed, TimedOut
from cluster.tier_file import TierError


class Flight:
    """One heartbeat under way: it is sent at once, and `landed` is called when it is answered or has
    failed."""

    def __init__(self, epoch: int, ask: Callable[[], Any], landed: Callable[[], None]) -> None:
        self.epoch = epoch
        """The epoch with which the member asked: an answer that comes after the member has another epoch does
        not concern it."""
        self._value: Any = None
        self._error: Exception | None = None
        self._greenlet = gevent.spawn(self._fly, ask, landed)

    @property
    def has_landed(self) -> bool:
        return bool(self._greenlet.ready())

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it is answered or has failed."""
        self._greenlet.join(timeout_s)

    def result(self) -> Any:
        """The answer, once it has landed. Raises what asking raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def drop(self) -> None:
        """Give the request up: nobody waits for its answer any more."""
        self._greenlet.kill(block=True)

    def _fly(self, ask: Callable[[], Any], landed: Callable[[], None]) -> None:
        try:
            self._value = ask()
        except (CoordinatorLost, NotYet, GaveUp, Closed, TimedOut, TierError) as error:
            self._error = error
        landed()
