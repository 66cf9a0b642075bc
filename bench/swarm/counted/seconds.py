"""What happened in each second of a run: the lines of its plots.

PURE. A run of many hours is told in longer steps, so that its report stays small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from bench.swarm.counted.columns import HELD_APIS, Columns, Integers, Mask
from bench.swarm.counted.gaps import Gap
from bench.swarm.counted.life import REBALANCING, SETTLED
from bench.swarm.counted.lives import Lives
from bench.swarm.counted.observed import Observed
from storage.history.calls import CONNECT

STEPS_MAX: Final = 7_200
"""How many steps a report has at most."""
NO_STEPS_MAX: Final = 10**9


class Seconds(NamedTuple):
    """What happened in a run; each list has one entry per step, from the run's beginning on. Rates are per
    second."""

    step_s: int
    requests_s: list[float]
    """The requests per second, by the time of their sending."""
    refused_s: list[float]
    lost_s: list[float]
    commits_s: list[float]
    """The acknowledged commits per second."""
    p50_ms: list[float | None]
    """The latency of requests that are answered at once, by the time of their answer."""
    p99_ms: list[float | None]
    settled: list[int]
    """How many members are settled at the end of the step."""
    rebalancing: list[int]
    rebalances: list[int]
    """How many rebalances began."""
    without_coordinator: list[int]
    """How many groups had no coordinator at some time of the step."""
    groups_stable: list[int]
    """How many groups have only settled members at the end of the step."""
    rebalances_ended: list[int]
    moved: list[int]
    """How many partitions went from one member to another."""


def seconds_of(observed: Observed, steps_max: int = STEPS_MAX) -> Seconds:
    """Count what happened in each step. Rows before the beginning count to the first step, rows after the end
    to the last."""
    columns, lives = observed.columns, observed.lives
    duration_s = max(observed.duration_s, 1.0)
    axis = _Axis(observed.began_us, max(1, math.ceil(duration_s / steps_max)), duration_s)
    acknowledged = columns.of({"OffsetCommit"}) & columns.answered & (columns.error_code == 0)
    everything = np.ones(len(columns.sent_us), dtype=bool)
    settled, rebalancing = _members(axis, lives)
    p50_ms, p99_ms = _latencies(axis, columns)
    rebalances = [each for life in lives.groups for each in life.rebalances]
    begun = [each.began_us for each in rebalances]
    settled_us = [each.settled_us for each in rebalances if each.length_us is not None]
    moved_us = [at_us for life in lives.groups for at_us in life.moved_us]
    return Seconds(
        step_s=axis.step_s,
        requests_s=axis.rate(columns.sent_us, everything),
        refused_s=axis.rate(columns.ended_us, columns.refused),
        lost_s=axis.rate(columns.ended_us, columns.lost),
        commits_s=axis.rate(columns.ended_us, acknowledged),
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        settled=settled,
        rebalancing=rebalancing,
        rebalances=axis.counts(_integers(begun)).tolist(),
        without_coordinator=_without_coordinator(axis, observed.gaps),
        groups_stable=_stable(axis, lives),
        rebalances_ended=axis.counts(_integers(settled_us)).tolist(),
        moved=axis.counts(_integers(moved_us)).tolist(),
    )


class _Axis:
    def __init__(self, began_us: int, step_s: int, duration_s: float) -> None:
        self.step_s = step_s
        self.steps = math.ceil(duration_s / step_s)
        self._began_us = began_us

    def places(self, at_us: Integers) -> Integers:
        return np.clip((at_us - self._began_us) // (self.step_s * 1_000_000), 0, self.steps - 1)

    def counts(self, at_us: Integers) -> Integers:
        return np.bincount(self.places(at_us), minlength=self.steps)

    def rate(self, at_us: Integers, mask: Mask) -> list[float]:
        rates: list[float] = np.round(self.counts(at_us[mask]) / self.step_s, 3).tolist()
        return rates


def _integers(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)


def _stable(axis: _Axis, lives: Lives) -> list[int]:
    began = axis.counts(_integers(at_us for life in lives.groups for at_us in life.rests_us[::2]))
    ended = axis.counts(_integers(at_us for life in lives.groups for at_us in life.rests_us[1::2]))
    stable: list[int] = np.cumsum(began - ended).tolist()
    return stable


def _members(axis: _Axis, lives: Lives) -> tuple[list[int], list[int]]:
    moves = np.array(lives.moves, dtype=np.int64).reshape(-1, 3)
    at = axis.places(moves[:, 0])

    def members(state: int) -> list[int]:
        came = np.bincount(at[moves[:, 2] == state], minlength=axis.steps)
        went = np.bincount(at[moves[:, 1] == state], minlength=axis.steps)
        inside: list[int] = np.cumsum(came - went).tolist()
        return inside

    return members(SETTLED), members(REBALANCING)


def _latencies(axis: _Axis, columns: Columns) -> tuple[list[float | None], list[float | None]]:
    quick = columns.answered & ~columns.refused & ~columns.of(HELD_APIS | {CONNECT})
    at = axis.places(columns.ended_us[quick])
    latencies_us = columns.ended_us[quick] - columns.sent_us[quick]
    latencies_us = latencies_us[np.lexsort((latencies_us, at))]
    counts = np.bincount(at, minlength=axis.steps)
    first = np.cumsum(counts) - counts

    def percentile(share: float) -> list[float | None]:
        ranks = first + np.maximum(np.ceil(share * counts).astype(np.int64) - 1, 0)
        return [
            round(int(latencies_us[rank]) / 1e3, 3) if count else None
            for rank, count in zip(ranks.tolist(), counts.tolist(), strict=True)
        ]

    return percentile(0.5), percentile(0.99)


def _without_coordinator(axis: _Axis, found: Iterable[Gap]) -> list[int]:
    """Count the groups without coordinator: a group counts once a step, however often it was hit."""
    counts = np.zeros(axis.steps + 1, dtype=np.int64)
    last: dict[str, int] = {}
    for gap in found:  # gaps come by group and time
        first, end = axis.places(np.array([gap.began_us, gap.ended_us])).tolist()
        first = max(first, last.get(gap.group_id, -1) + 1)
        if first <= end:
            counts[first] += 1
            counts[end + 1] -= 1
            last[gap.group_id] = end
    told: list[int] = counts.cumsum()[:-1].tolist()
    return told
