"""Count durations in buckets of fixed width on a logarithmic scale: to add one costs an increment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_STEPS_BITS = 2
_STEPS = 1 << _STEPS_BITS
BUCKETS = 64 * _STEPS
"""How many buckets a histogram has: four to each power of two, so that a quantile is at most a quarter too
high."""


class Histogram:
    """A histogram of durations in nanoseconds, below 2**63."""

    __slots__ = ("counts", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_ns = 0

    def observe(self, duration_ns: int) -> None:
        """Count a duration, which is 0 if the clock stood still."""
        bits = duration_ns.bit_length()
        if bits > _STEPS_BITS:
            step = (duration_ns >> (bits - 1 - _STEPS_BITS)) & (_STEPS - 1)
            self.counts[bits << _STEPS_BITS | step] += 1
        else:
            self.counts[bits << _STEPS_BITS] += 1
        self.sum_ns += duration_ns

    def packed(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the sum and the buckets that are not empty, which is what travels to the broker."""
        return self.sum_ns, tuple((at, count) for at, count in enumerate(self.counts) if count)


def added(packed: Iterable[tuple[int, Sequence[Sequence[int]]]]) -> tuple[int, dict[int, int]]:
    """Return several packed histograms as one: the sum, and the counts by bucket."""
    total_ns, counts = 0, dict[int, int]()
    for sum_ns, buckets in packed:
        total_ns += sum_ns
        for at, count in buckets:
            counts[at] = counts.get(at, 0) + count
    return total_ns, counts


def quantile_ns(counts: dict[int, int], quantile: float) -> int:
    """Return the upper end of the bucket in which the quantile lies; 0 if nothing was observed."""
    wanted, seen = quantile * sum(counts.values()), 0
    for at in sorted(counts):
        seen += counts[at]
        if seen >= wanted:
            return _upper_end_ns(at)
    return 0


def _upper_end_ns(at: int) -> int:
    bits, step = at >> _STEPS_BITS, at & (_STEPS - 1)
    if bits <= _STEPS_BITS:
        return (1 << bits) - 1
    return (_STEPS + step + 1 << (bits - 1 - _STEPS_BITS)) - 1
