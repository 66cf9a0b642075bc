"""Measures how busy a process of the swarm is: one without processor time left measures itself, not the
server."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

FULL: Final = 0.9
"""The share of a core above which a process cannot send on time."""
WINDOW: Final = 5
"""How many looks, each about a second, count together: a shorter peak is no bottleneck."""


class Stopwatch:
    """Measures this process: processor time, and the time that went by meanwhile."""

    def __init__(self) -> None:
        self._cpu_s = time.process_time()
        self._at_s = time.monotonic()

    def look(self) -> tuple[float, float]:
        """Both times, in seconds since the last look."""
        cpu_s, at_s = time.process_time(), time.monotonic()
        needed = cpu_s - self._cpu_s, at_s - self._at_s
        self._cpu_s, self._at_s = cpu_s, at_s
        return needed


class Busy:
    """How busy one process is, by its looks."""

    def __init__(self) -> None:
        self.now = 0.0
        """The share of a core that it had since the look before."""
        self.most = 0.0
        """The largest share of a core that it had over WINDOW looks."""
        self._cpu_s = 0.0
        self._lasted_s = 0.0
        self._latest: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    def add(self, cpu_s: float, lasted_s: float) -> None:
        self._cpu_s += cpu_s
        self._lasted_s += lasted_s
        self.now = _share(cpu_s, lasted_s)
        self._latest.append((cpu_s, lasted_s))
        if len(self._latest) == WINDOW:
            self.most = max(self.most, _share(*map(sum, zip(*self._latest, strict=True))))

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for the run's record."""
        return {"mean": round(_share(self._cpu_s, self._lasted_s), 3), "most": round(self.most, 3)}

    @property
    def is_full(self) -> bool:
        return _share(self._cpu_s, self._lasted_s) >= FULL


def _share(cpu_s: float, lasted_s: float) -> float:
    return cpu_s / lasted_s if lasted_s > 0 else 0.0
