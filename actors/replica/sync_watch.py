"""A watch over the syncs for which the loop of a replica waits: it notices the one that does not end.

A quick sync is done where it is needed, because a thread would cost more. If the disk then hangs, the loop
hangs with it: a leader's heartbeats stay away and its lease runs out, so that another replica is elected as
if this one had died. But its connections stay open, and whoever waits on one of them would wait for the disk,
perhaps for minutes, though somebody else serves by now. So a thread, which does nothing as long as nothing is
synced, lets them go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("groupd.replica")


class SyncWatch:
    """Calls what the loop has to wait for. If one call takes longer than `after_s` seconds, `on_stuck` is
    called in the watch's thread, once, and half as late again at most. It must not wait for the loop."""

    def __init__(
        self, after_s: float, on_stuck: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._after_s = after_s
        self._on_stuck = on_stuck
        self._clock = clock
        self._calls = 0
        self._since: float | None = None
        """When the loop began to wait; None: it does not wait."""
        self._told = 0
        """The number of the last call that was told of."""
        self._is_asleep = True
        """Whether the thread waits until it is wanted, or has not been started."""
        self._wanted = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, sync: Callable[[], None]) -> None:
        """Do what the loop has to wait for, and raise what that raises."""
        self._calls += 1
        self._since = self._clock()
        if self._is_asleep:
            self._wake()
        try:
            sync()
        finally:
            self._since = None

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _wake(self) -> None:
        self._is_asleep = False
        self._wanted.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sync-watch", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        seen = -1
        while not self._closed.is_set():
            if self._calls == seen and self._since is None:
                self._sleep(seen)
            seen = self._calls
            self._look()
            self._closed.wait(self._after_s / 2)

    def _sleep(self, seen: int) -> None:
        """Wait for the next call: none came since the last look."""
        self._is_asleep = True
        if self._calls == seen:  # else it came between the two, and did not see that it has to wake anybody
            self._wanted.wait()
        self._is_asleep = False
        self._wanted.clear()

    def _look(self) -> None:
        number, since = self._calls, self._since
        if since is None or number == self._told or self._clock() - since < self._after_s:
            return
        self._told = number
        try:
            self._on_stuck()
        except Exception:
            log.exception("what a hanging disk calls for could not be done")
        log.critical("a sync has held this replica up for more than %.1f s", self._after_s)
