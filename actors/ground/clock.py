"""The tier's clock: milliseconds since the epoch that never run backwards.

Deadlines must not move when somebody sets the wall clock, and timestamps must mean something to people:
so the wall clock is read once, at start, and the monotonic clock carries on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def monotonic_us() -> int:
    """Return the monotonic clock's time in microseconds, to measure how long something takes."""
    return time.monotonic_ns() // 1_000


def monotonic_ms() -> int:
    """Return the monotonic clock's time in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def steady_clock_ms() -> Callable[[], int]:
    """Return a clock for one process: a function that returns the tier's time in ms."""
    offset_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
    monotonic_ns = time.monotonic_ns

    def now_ms() -> int:
        return monotonic_ns() // 1_000_000 + offset_ms

    return now_ms
