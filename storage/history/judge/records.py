"""Rule 7: nobody commits, or is told, a position behind what was produced.

Only of partitions to which clients of the history wrote, and until one of their Produce requests was not
answered well: what became of that one is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from storage.history.calls import PRODUCE, Call, History
from storage.history.judge.findings import Findings, Violation, story

NOT_WRITTEN: Final = frozenset({3, 6})
"""The errors that say that a record was not written: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
ANYWHERE: Final = 2**63
Partition = tuple[str, int]
_POSITIONS: Final = frozenset({"OffsetCommit", "OffsetFetch"})


def judge_records(history: History) -> Findings:
    """Judge every committed offset of a partition that records were written to."""
    ends = _ends(call for call in history.calls if call.api == PRODUCE)
    violations, count = [], 0
    for call in history.calls:
        if call.api not in _POSITIONS or not call.is_answered:
            continue
        for row in call.offsets:
            if row.error_code or (row.topic, row.partition) not in ends:
                continue
            count += 1
            end = ends[row.topic, row.partition].at(call.ended_us)
            if row.offset > end:
                violations.append(
                    Violation(
                        "behind the end",
                        call.group_id,
                        f"{row.topic}-{row.partition}: {row.offset} in {story(call)}, and {end} was the end",
                    )
                )
    return Findings(
        violations,
        {"positions": count},
        seen=f"{count:,} positions in {len(ends):,} partitions that records were written to",
        unseen="" if count else "no position of a partition was seen of which all is known that was written",
        is_required=False,
    )


class _Ends:
    """How far the offsets of one partition could go, by time."""

    def __init__(self) -> None:
        self._sent_us: list[int] = []
        self._ends: list[int] = []

    def add(self, sent_us: int, end: int) -> None:
        """Note an end; calls come in the order of their sending."""
        self._sent_us.append(sent_us)
        self._ends.append(max(end, self._ends[-1] if self._ends else 0))

    def at(self, time_us: int) -> int:
        place = bisect_right(self._sent_us, time_us)
        return self._ends[place - 1] if place else 0


def _ends(calls: Iterable[Call]) -> dict[Partition, _Ends]:
    ends: dict[Partition, _Ends] = defaultdict(_Ends)
    for call in calls:  # by the time of sending
        for row in call.offsets:
            if call.is_answered and row.error_code in NOT_WRITTEN:
                continue
            is_known = call.is_answered and not row.error_code
            ends[row.topic, row.partition].add(call.sent_us, row.offset if is_known else ANYWHERE)
    return dict(ends)
