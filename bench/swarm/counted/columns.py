"""The calls of a history as columns of numbers, and what these alone tell.

PURE. Two million calls are fifty megabytes of columns; the calls themselves are gone through, never copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.swarm.wire.errors import NEWS
from storage.history.calls import ANSWERED, CLOSED, FETCH, OPEN, TIMED_OUT, History

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

WAITING_APIS: Final = frozenset({"JoinGroup", "SyncGroup"})
"""The APIs that are answered when the other members have come: their latency is the rebalance's, not the
server's."""
HELD_APIS: Final = WAITING_APIS | {"Heartbeat", "ConsumerGroupHeartbeat", FETCH}
"""The APIs whose answer may be held: those that wait for other members, and heartbeats and Fetch when there
is nothing to say."""
GIVEN_UP: Final = "given up"
"""The outcome of a call whose client closed its connection itself, because it was told to leave or to crash:
the server did not fail."""
OUTCOMES: Final = (ANSWERED, CLOSED, TIMED_OUT, OPEN, GIVEN_UP)
PARTING_US: Final = 1_000_000
"""The longest time from the end of a call that was given up to the LeaveGroup: the coordinator may have to be
looked up."""


class Spread(NamedTuple):
    """How values are distributed; percentiles by nearest rank."""

    values: int
    """How many values there are."""
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None


class Columns(NamedTuple):
    """One entry for each call, in the order of sending."""

    sent_us: Integers
    ended_us: Integers
    outcome: npt.NDArray[np.int8]
    """The place of each call's outcome in OUTCOMES."""
    error_code: npt.NDArray[np.int16]
    api: npt.NDArray[np.int16]
    """The place of each call's API in `apis`."""
    group: npt.NDArray[np.int32]
    """The place of each call's group in `groups`; -1: it has no group."""
    apis: Sequence[str]
    groups: Sequence[str]

    @property
    def answered(self) -> Mask:
        answered: Mask = self.outcome == OUTCOMES.index(ANSWERED)
        return answered

    @property
    def lost(self) -> Mask:
        """The calls whose connection ended, or whose time-out came, before the answer."""
        lost: Mask = (self.outcome == OUTCOMES.index(CLOSED)) | (self.outcome == OUTCOMES.index(TIMED_OUT))
        return lost

    @property
    def refused(self) -> Mask:
        """The calls that were answered with an error that is none of NEWS."""
        refused: Mask = self.answered & ~np.isin(self.error_code, [0, *NEWS])
        return refused

    def of(self, apis: Iterable[str]) -> Mask:
        """The calls of these APIs."""
        wanted = [place for place, api in enumerate(self.apis) if api in set(apis)]
        of_apis: Mask = np.isin(self.api, wanted)
        return of_apis


def columns_of(history: History) -> Columns:
    """Make the columns of a history. Each takes one pass over the calls, so that no list of millions is
    made."""
    calls = history.calls
    apis: dict[str, int] = {}
    groups: dict[str, int] = {"": -1}
    outcomes = {outcome: place for place, outcome in enumerate(OUTCOMES)}

    def column(kind: Any, values: Iterable[int]) -> Any:
        return np.fromiter(values, kind, len(calls))

    outcome = column(np.int8, (outcomes[call.outcome] for call in calls))
    outcome[given_up(history)] = outcomes[GIVEN_UP]
    return Columns(
        sent_us=column(np.int64, (call.sent_us for call in calls)),
        ended_us=column(np.int64, (call.ended_us for call in calls)),
        outcome=outcome,
        error_code=column(np.int16, (call.error_code for call in calls)),
        api=column(np.int16, (apis.setdefault(call.api, len(apis)) for call in calls)),
        group=column(np.int32, (groups.setdefault(call.group_id, len(groups) - 1) for call in calls)),
        apis=tuple(apis),
        groups=tuple(groups)[1:],
    )


def given_up(history: History) -> list[int]:
    """The places of the calls that were closed when their client left or crashed."""
    closed = [(place, call) for place, call in enumerate(history.calls) if call.outcome == CLOSED]
    parted: dict[str, list[int]] = {call.client: [] for _, call in closed}
    for row in history.gone:
        if row.client in parted:
            parted[row.client].append(row.at_us)
    for call in history.calls:
        is_leave = call.api == "LeaveGroup" or (call.api == "ConsumerGroupHeartbeat" and call.epoch < 0)
        if is_leave and call.client in parted:
            parted[call.client].append(call.sent_us)
    return [
        place
        for place, call in closed
        if any(call.sent_us < at_us <= call.ended_us + PARTING_US for at_us in parted[call.client])
    ]


def spread(values_us: Sequence[int] | Integers) -> Spread:
    """The spread of durations in microseconds."""
    if not len(values_us):
        return Spread(0, None, None, None, None, None, None)
    found = np.asarray(values_us)
    ranks = np.percentile(found, [50, 90, 99, 99.9, 100], method="inverted_cdf")
    p50, p90, p99, p999, most = (round(float(rank) / 1e3, 3) for rank in ranks)
    return Spread(len(found), round(float(found.mean()) / 1e3, 3), p50, p90, p99, p999, most)
