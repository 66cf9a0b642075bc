"""Counts the requests of each API while a swarm runs: how many there were, how many failed, how long the
others took.

PURE. Counts of several processes and seconds are added up; a histogram's buckets are those of the scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

BOUNDS_MS: Final = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
"""The upper bounds of the buckets; one more bucket holds the rest."""


class Tally(NamedTuple):
    """The counts of one API."""

    requests: int
    errors: int
    """How many requests were refused, or not answered."""
    took_ms: float
    """The sum of the latencies of requests that were served."""
    buckets: tuple[int, ...]
    """How many of these took no longer than each bound, and longer than the one before it."""

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.requests + other.requests,
            self.errors + other.errors,
            self.took_ms + other.took_ms,
            tuple(map(sum, zip(self.buckets, other.buckets, strict=True))),
        )


NOTHING: Final = Tally(0, 0, 0.0, (0,) * (len(BOUNDS_MS) + 1))
Tallies = Mapping[str, Tally]
"""The counts by API."""


class Counted:
    """Counts the requests of one process as they end."""

    def __init__(self) -> None:
        self._requests: dict[str, list[float]] = {}
        """The requests, errors, milliseconds, then the buckets, by API."""

    def add(self, api: str, took_ms: float, *, is_served: bool) -> None:
        counts = self._requests.get(api)
        if counts is None:
            counts = self._requests[api] = [0] * (len(NOTHING.buckets) + 3)
        counts[0] += 1
        if is_served:
            counts[2] += took_ms
            counts[3 + bisect_left(BOUNDS_MS, took_ms)] += 1
        else:
            counts[1] += 1

    def plain(self) -> dict[str, list[float]]:
        """Return it as plain values for a message."""
        return {
            api: [*counts[:2], round(counts[2], 3), *counts[3:]] for api, counts in self._requests.items()
        }


def added(parts: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The sum of several results of `plain`."""
    total: dict[str, list[float]] = {}
    for part in parts:
        for api, counts in part.items():
            before = total.get(api)
            total[api] = (
                list(counts) if before is None else [a + b for a, b in zip(before, counts, strict=True)]
            )
    return total


def read(plain: Mapping[str, Any]) -> Tallies:
    """Read a result of `plain`."""
    return {
        api: Tally(int(counts[0]), int(counts[1]), float(counts[2]), tuple(map(int, counts[3:])))
        for api, counts in plain.items()
    }
