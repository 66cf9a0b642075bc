"""What one request of a kind costs a process, by the rate at which the process gets requests. PURE.

A process that is asked seldom has lost its caches and its turn since the last request, and no two requests
share a sync or a wake-up. So a request costs several times as much in a process that sleeps as in a busy one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Point(NamedTuple):
    """A measurement: what each request cost one process that got so many per second."""

    per_s: float
    each: float


class Curve(NamedTuple):
    """The cost of a request, in microseconds of CPU or in bytes, through the points that were measured.
    Between two of them the logarithms of rate and cost are on a line. Beyond the last one the cost is that
    one's, for nobody knows better."""

    points: tuple[Point, ...]
    """The measurements by rising rate."""

    @classmethod
    def through(cls, points: Iterable[Point]) -> Curve:
        """Make the curve. Raises ValueError for fewer than two rates: one says nothing about others."""
        ordered = tuple(sorted(points))
        if len({point.per_s for point in ordered}) < max(2, len(ordered)):
            raise ValueError("a curve needs measurements at two rates or more, each once")
        return cls(ordered)

    def each(self, together_per_s: float) -> float:
        """The cost of one request, in a process that gets so many requests of all kinds per second."""
        place = bisect_right(self.points, (together_per_s, math.inf))
        if place in (0, len(self.points)):
            return self.points[max(0, place - 1)].each
        left, right = self.points[place - 1], self.points[place]
        share = math.log(together_per_s / left.per_s) / math.log(right.per_s / left.per_s)
        return left.each * math.exp(share * math.log(right.each / left.each))
