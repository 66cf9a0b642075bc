"""A stretch of a made-up history in the order in which leaders saw it, with what there is most of: commits
and lag samples. One stretch at a time, so that a history may be longer than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from storage.history.generator.lives import Int64s
from storage.history.generator.plan import Plan
from storage.history.generator.rows import CAUSES, KIND, NULL, Rows, concatenated, rows, taken
from storage.history.generator.spec import DAY_MS, Spec

STRETCH_ROWS: Final = 500_000
LAG_SHARE: Final = 0.2
INTERVAL_MS: Final = 10_000
"""The longest time that one row of commits sums up."""


def stretches(of: Plan) -> Iterator[Rows]:
    """The whole history in order of time, each stretch within a day: rows sorted by offsets partition, then
    time, with term and sequence."""
    spec = of.spec
    bulk = max(0, spec.events - of.events.size)
    a_day = -(-spec.events // (spec.days * STRETCH_ROWS))
    count = spec.days * a_day
    length_ms = DAY_MS // a_day
    next_sequence = np.zeros((spec.offsets_partitions, of.failovers_ms.shape[1] + 1), np.int64)
    for number in range(count):
        day, within = divmod(number, a_day)
        begin_ms = day * DAY_MS + within * length_ms
        end_ms = (day + 1) * DAY_MS if within == a_day - 1 else begin_ms + length_ms
        size = bulk * (number + 1) // count - bulk * number // count
        planned = np.searchsorted(of.events.columns["at_ms"], (begin_ms, end_ms))
        parts = [
            taken(of.events, np.arange(*planned)),
            _bulk(spec, np.random.default_rng([spec.seed, 6, number]), size, begin_ms, end_ms),
            _failovers(of, begin_ms, end_ms),
        ]
        yield _as_seen(of, concatenated(parts), next_sequence)


def _bulk(spec: Spec, random: np.random.Generator, size: int, begin_ms: int, end_ms: int) -> Rows:
    lags = int(size * LAG_SHARE)
    at_ms = random.integers(begin_ms, end_ms, size)
    hot = spec.groups - 1
    group = np.where(random.random(size) < spec.hot_share, hot, random.integers(0, max(hot, 1), size))
    commits = random.integers(1, 40, size - lags)
    committed, lag = random.integers(200_000, 10_000_000, lags), random.integers(0, 3_000, lags)
    common = {"order": 5}
    return concatenated(
        [
            rows(
                size - lags,
                {
                    "at_ms": at_ms[lags:],
                    "group_id": group[lags:],
                    "kind": KIND["commits"],
                    **common,
                    "first_ms": at_ms[lags:] - INTERVAL_MS,
                    "last_ms": at_ms[lags:],
                    "commits": commits,
                    "offsets": commits * spec.partitions_each,
                    "regressed": 0,
                },
            ),
            rows(
                lags,
                {
                    "at_ms": at_ms[:lags],
                    "group_id": group[:lags],
                    "kind": KIND["lag"],
                    **common,
                    "topic": group[:lags],
                    "partition": lag % (spec.members * spec.partitions_each),
                    "committed_offset": committed,
                    "end_offset": committed + lag,
                    "lag": lag,
                },
            ),
        ]
    )


def _failovers(of: Plan, begin_ms: int, end_ms: int) -> Rows:
    """The one who loses and the one who is elected, a millisecond later."""
    elected: Int64s = of.failovers_ms.ravel()
    partition = np.indices(of.failovers_ms.shape)[0].ravel()
    if begin_ms == 0:  # the first leaders
        elected = np.r_[np.zeros(of.spec.offsets_partitions, np.int64), elected]
        partition = np.r_[np.arange(of.spec.offsets_partitions), partition]
    parts = []
    for kind, at_ms, order in (("coordinator_lost", elected - 1, 9), ("coordinator_elected", elected, -1)):
        mine = (at_ms >= begin_ms) & (at_ms < end_ms)
        columns: dict[str, Any] = {
            "at_ms": at_ms[mine],
            "offsets_partition": partition[mine],
            "kind": KIND[kind],
            "order": order,
        }
        columns |= {"replica_id": 0}
        if kind == "coordinator_lost":
            columns |= {"cause": CAUSES.index("another leads")}
        parts.append(rows(int(mine.sum()), columns))
    return concatenated(parts)


def _as_seen(of: Plan, all_: Rows, next_sequence: Int64s) -> Rows:
    """Sorted, with partition, term, node and sequence. `next_sequence` by partition and term, in and out."""
    spec, columns = of.spec, all_.columns
    given = columns.get("offsets_partition", np.full(all_.size, NULL))
    partition = np.where(given != NULL, given, columns["group_id"] % spec.offsets_partitions)
    order = np.lexsort((columns["order"], columns["at_ms"], partition))
    found = taken(all_, order)
    columns, partition = found.columns, partition[order]
    term = np.empty(found.size, np.int64)
    sequence = np.empty(found.size, np.int64)
    for number in range(spec.offsets_partitions):
        begin, end = np.searchsorted(partition, (number, number + 1))
        at_ms = columns["at_ms"][begin:end]
        term[begin:end] = np.searchsorted(of.failovers_ms[number], at_ms, side="right")
        for each, size in zip(*np.unique(term[begin:end], return_counts=True), strict=True):
            first = begin + int(np.searchsorted(term[begin:end], each))
            sequence[first : first + size] = next_sequence[number, each] + np.arange(size)
            next_sequence[number, each] += size
    columns |= {
        "offsets_partition": partition,
        "term": term + 1,
        "sequence": sequence,
        "node_id": (partition + term) % spec.nodes,
    }
    return Rows(columns, found.moves)
