"""How many requests took how long: counts in buckets that are the same in every report.

PURE. Ten buckets for each power of ten, so that the tails of two runs can be laid over each other.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bench.swarm.counted.columns import Integers

PER_DECADE: Final = 10
LEAST_DECADE, MOST_DECADE = -2, 6
"""The range from 10 microseconds to a thousand seconds, in powers of ten of a millisecond."""
BOUNDS_MS: Final = tuple(
    round(10 ** (LEAST_DECADE + step / PER_DECADE), 5)
    for step in range((MOST_DECADE - LEAST_DECADE) * PER_DECADE + 1)
)
"""The upper bounds of the buckets; what took longer than the last counts to it."""

Buckets = list[tuple[float, int]]
"""The upper bound in milliseconds (included) and the count of each bucket that has any, in rising order."""


def buckets(values_us: Integers) -> Buckets:
    """Count durations in microseconds by bucket."""
    places = np.searchsorted(np.array(BOUNDS_MS), values_us / 1e3, side="left")
    counts = np.bincount(np.minimum(places, len(BOUNDS_MS) - 1), minlength=len(BOUNDS_MS))
    return [(BOUNDS_MS[place], int(counts[place])) for place in np.flatnonzero(counts).tolist()]


def lower_bound(bound_ms: float) -> float:
    """The lower bound of the bucket that ends with `bound_ms`."""
    return bound_ms / 10 ** (1 / PER_DECADE)
