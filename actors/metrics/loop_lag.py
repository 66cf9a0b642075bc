"""Measure how late an event loop is: what a request waits before anybody looks at it."""

from __future__ import annotations

import asyncio

from actors.metrics.histogram import Histogram

INTERVAL_S = 0.5


class LoopLag:
    """The lateness of a loop: twice a second it is measured how late a call comes. `start` is called on the
    loop's thread."""

    def __init__(self) -> None:
        self.late = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(asyncio.get_running_loop())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        at = loop.time() + INTERVAL_S
        self._timer = loop.call_at(at, self._look, loop, at)

    def _look(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self.late.observe(max(0, int((loop.time() - at) * 1e9)))
        self._arm(loop)
