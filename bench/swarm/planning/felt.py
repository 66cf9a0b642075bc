"""Tells which faults a running swarm suffers now: those of its plan, and those that others write into its
directory.

A fault that takes no time (a cut connection, a killed process) counts as active for MOMENT_S, so that a
scrape now and then sees it, too.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.swarm.planning.plan import CRASH, CUT, SLEEP, Action
from storage.history.call_files import SUFFIX, UnreadableFile, read_file
from storage.history.calls import Fault

FAULTS_FILE: Final = f"faults{SUFFIX}"
"""The file in a run's directory that `groupd chaos` writes while the swarm runs."""
MOMENT_S: Final = 15.0
PLANNED: Final = frozenset({CRASH, CUT, SLEEP})
"""The actions that are faults; members that leave or start do what clients do."""


class Active(NamedTuple):
    """A fault that is active now."""

    kind: str
    target: str


class Planned:
    """The faults that a plan has for its members. It is asked with rising times."""

    def __init__(self, actions: Iterable[Action]) -> None:
        self._coming: Iterator[Action] = (action for action in actions if action.kind in PLANNED)
        self._next = next(self._coming, None)
        self._active: list[tuple[float, Active]] = []
        self.begun: Counter[str] = Counter()
        """How many faults have begun, by kind."""

    def at(self, at_s: float) -> set[Active]:
        """The faults that are active so long after the swarm's start."""
        while self._next is not None and self._next.at_s <= at_s:
            action, self._next = self._next, next(self._coming, None)
            self.begun[action.kind] += 1
            lasts_s = max(action.value if action.kind == SLEEP else 0.0, MOMENT_S)
            heapq.heappush(self._active, (action.at_s + lasts_s, Active(action.kind, action.subject)))
        while self._active and self._active[0][0] < at_s:
            heapq.heappop(self._active)
        return {active for _, active in self._active}


class Written:
    """The faults that another process writes into the run's directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FAULTS_FILE
        self._size = 0
        self._faults: dict[tuple[str, str, int], Fault] = {}

    @property
    def begun(self) -> Counter[str]:
        return Counter(kind for kind, _, _ in self._faults)

    def at(self, now_us: int) -> set[Active]:
        """The faults that are active at `now_us`, by the clock of all rows."""
        with contextlib.suppress(OSError, UnreadableFile):  # there may be no file yet, or half a row
            size = self._path.stat().st_size
            if size != self._size:
                rows = read_file(self._path).rows
                self._faults = {row[:3]: row for row in rows if isinstance(row, Fault)}
                self._size = size
        return {
            Active(fault.kind, fault.target)
            for fault in self._faults.values()
            if fault.began_us <= now_us <= max(fault.ended_us, fault.began_us + MOMENT_S * 1e6)
        }
