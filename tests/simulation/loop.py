"""The event loop of one simulated process: virtual time, by the clock of its host.

What a paused process would have done, it does in the moment in which it goes on; what a dead one would have
done, nobody does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

ROUNDED_S = 0.00001
"""A timer comes this much late, so that no rounding of a clock's rate brings it early."""


class _World(Protocol):
    now: float

    def at(self, when: float, work: Callable[[], None]) -> None: ...


class _Host(Protocol):
    rate: float
    paused_until: float

    def clock(self) -> float: ...


class Turning(Protocol):
    """The process whose event loop this is."""

    @property
    def host(self) -> Any: ...

    @property
    def world(self) -> Any: ...

    @property
    def is_alive(self) -> bool: ...


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def __call__(self) -> None:
        if self._callback is not None:
            self._callback()


class SimLoop:
    """The part of an event loop that `actors.replica.turn` uses."""

    def __init__(self, process: Turning) -> None:
        self._process = process
        self._host: _Host = process.host
        self._world: _World = process.world

    def time(self) -> float:
        return self._host.clock()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._at(self._world.now, callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> _Timer:
        delay = max((when - self.time()) / self._host.rate, 0.0) + ROUNDED_S
        timer = _Timer(callback)
        self._at(self._world.now + delay, timer)
        return timer

    def _at(self, when: float, callback: Callable[[], None]) -> None:
        def run() -> None:
            if self._process.is_alive and self._host.paused_until > self._world.now:
                self._world.at(self._host.paused_until, run)
            elif self._process.is_alive:
                callback()

        self._world.at(when, run)
