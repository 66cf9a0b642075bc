"""Fewer operations with the same kind of difference."""

from __future__ import annotations

import time
from collections.abc import Callable

SHRINK_S = 60.0


def shrunk(indexes: list[int], differs: Callable[[list[int]], bool], seconds: float = SHRINK_S) -> list[int]:
    """Leave out ever smaller runs of operations while the difference stays (Zeller's ddmin)."""
    end = time.monotonic() + seconds
    size = max(len(indexes) // 2, 1)
    while size >= 1:
        start = 0
        while start < len(indexes) and time.monotonic() < end:
            fewer = indexes[:start] + indexes[start + size :]
            if fewer and differs(fewer):
                indexes = fewer
            else:
                start += size
        size //= 2
    return indexes
