"""What several runs say together: their median, and an interval in which it probably is.

PURE: the resamples are drawn with a seed of their own, so the same runs always give the same interval.

The intervals are percentile bootstraps: the samples are drawn again, with replacement, RESAMPLES times, and
the middle SHARE of the medians is the interval. Nothing is assumed of how the samples are distributed. An
interval never reaches beyond the samples, so that of three runs is too narrow; bench/swarm/SEARCH.md says by
how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

SAMPLES_LEAST: Final = 3
"""How many samples an interval needs at least."""
RESAMPLES: Final = 4_000
SHARE: Final = 0.95
SEED: Final = 20_261
_TAILS: Final = ((1 - SHARE) / 2, (1 + SHARE) / 2)


class Estimate(NamedTuple):
    """A median, and its interval if there are enough samples."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def differs_from_one(self) -> bool:
        """Whether the interval of a ratio does not hold 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def middle(samples: Sequence[float]) -> Estimate | None:
    """The median of samples; None without samples."""
    if not samples:
        return None
    value = _plain(float(np.median(samples)), samples)
    if len(samples) < SAMPLES_LEAST:
        return Estimate(value)
    low, high = _between(_medians(samples, SEED))
    return Estimate(value, _plain(low, samples), _plain(high, samples))


def ratio(a: Sequence[float], b: Sequence[float]) -> Estimate | None:
    """The ratio of the median of `a` to that of `b`; None without samples, or if the latter is 0."""
    if not a or not b or not (below := float(np.median(b))):
        return None
    value = float(np.median(a)) / below
    if min(len(a), len(b)) < SAMPLES_LEAST:
        return Estimate(value)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = _medians(a, SEED) / _medians(b, SEED + 1)
    low, high = _between(ratios)
    return Estimate(value, low, high) if math.isfinite(low) and math.isfinite(high) else Estimate(value)


def spread_percent(samples: Sequence[float]) -> float | None:
    """The span from the least to the most, as a percentage of the median. None if that is 0."""
    if not samples or not (median := float(np.median(samples))):
        return None
    return 100 * (max(samples) - min(samples)) / abs(median)


def _medians(samples: Sequence[float], seed: int) -> Any:
    chance = np.random.default_rng(seed)
    drawn = chance.choice(np.asarray(samples, dtype=float), (RESAMPLES, len(samples)))
    return np.median(drawn, axis=1)


def _between(values: Any) -> tuple[float, float]:
    low, high = np.quantile(values, _TAILS, method="inverted_cdf").tolist()
    return low, high


def _plain(value: float, samples: Sequence[float]) -> float:
    """The value as an integer if all samples are integers."""
    is_count = all(isinstance(each, int) for each in samples) and value.is_integer()
    return int(value) if is_count else value
