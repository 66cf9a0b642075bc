"""When groups may have been loading: heartbeats are then answered as if all were well (W4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from storage.history.calls import Call, Fault


class Loading:
    """The times in which a coordinator may be loading: a while after each of these faults."""

    def __init__(self, faults: Sequence[Fault], grace_us: int) -> None:
        spans = sorted((fault.began_us, fault.ended_us) for fault in faults)
        self._starts = [began_us for began_us, _ in spans]
        self._latest_end = list(accumulate((ended_us for _, ended_us in spans), max))
        self._grace_us = grace_us

    def may_be(self, call: Call) -> bool:
        """Return whether the coordinator may have been loading when it answered a call."""
        return self.may_have_begun(call.sent_us, call.ended_us)

    def may_have_begun(self, since_us: int, until_us: int) -> bool:
        """Return whether another coordinator may have taken the groups over within a time."""
        before = bisect_right(self._starts, until_us)
        return before > 0 and since_us <= self._latest_end[before - 1] + self._grace_us
