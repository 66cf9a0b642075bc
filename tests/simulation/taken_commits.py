"""The commits that the lane of one simulated process takes: a twin of `actors.leader.lane.commits`, and its
judge.

In the place of bytes it compares commits without their offsets, and it forgets nothing: what is decided
together has to be what would be decided of each, one after the other. What is taken within a moment is one
batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
from kio.schema.errors import ErrorCode

from actors.coordinator.offsets.known import Known
from actors.coordinator.offsets.together import Column, Steady, Together, may_be
from actors.ground.contract import Request
from actors.ground.records import NO_EXPIRY, OffsetRowsValue
from actors.protocol.offset_rows import CommittedRows, offsets_of, partitions_of
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process

MOMENT_S = 0.002


class TakenCommits:
    """`decided` decides a commit and its records, and leaves no trace; `leave` has Python decide one; `give`
    sends an answer."""

    def __init__(
        self,
        process: Process,
        replica: Any,
        decided: Callable[[Request], Any],
        leave: Callable[[Request], None],
        give: Callable[[int, Any], None],
    ) -> None:
        self._process = process
        self._replica = replica
        self._decided = decided
        self._leave = leave
        self._give = give
        self._steady: dict[Known, tuple[Any, Steady]] = {}
        self._columns: dict[Any, tuple[Column, list[int]]] = {}
        """What is committed, and whose -> the column, and its offsets as they were seen last."""
        self.taken = 0
        """How many commits were decided together."""
        self._gathered: list[tuple[Request, Steady]] = []

    def takes(self, request: Request) -> bool:
        """Take a commit, if it can be."""
        known = getattr(request.body, "known", None)
        if known is None or known.decided is None or not self._replica.serving:
            return False
        rows = request.body.topics[0][1]
        if type(rows) is not CommittedRows or len(request.body.topics) > 1:
            return False
        steady = self._steady_of(known, request, rows.data)
        if steady is None or not self._goes_on(steady, rows.data):
            return False
        if not self._gathered:
            self._process.later(MOMENT_S, self._decide)
        self._gathered.append((request, steady))
        return True

    def _steady_of(self, known: Known, request: Request, rows: bytes) -> Steady | None:
        found = self._steady.get(known)
        if found is not None and found[0] is known.decided:
            return found[1]
        state, decided = self._replica.shard.state, known.decided
        if decided is None or not may_be(decided, state):
            return None
        key, topic_id = decided.topics[0]
        whose = (key, topic_id, partitions_of(rows))
        column = self._columns.setdefault(whose, (Column(key, topic_id), []))[0]
        steady = Steady(request, decided, column)
        self._steady[known] = decided, steady
        return steady

    def _goes_on(self, steady: Steady, rows: bytes) -> bool:
        """Return whether no offset is lower than the one that was seen last."""
        column, new = steady.column, offsets_of(rows)
        last = self._columns[column.key, column.topic_id, partitions_of(rows)][1]
        if column.blocks is None:
            found = column.read(self._replica.shard.state, rows)
            if found is None:
                return False
            last[:] = offsets_of(found)
        if min(new) < 0 or any(offset < before for offset, before in zip(new, last, strict=True)):
            return False
        last[:] = new
        return True

    def fallen(self) -> None:
        """Decide what was gathered: the lane itself decides all that a call has taken within that call, so
        that nothing waits in it when its replica leads no more."""
        self._decide()

    def _decide(self) -> None:
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        replica, packed, now_ms = self._replica, b"", self._process.now_ms()
        for request, steady in gathered:
            record, at = _record(request, steady, now_ms)
            steady.record_bytes, steady.rows_at = len(record), at
            steady.rows_end = at + len(request.body.topics[0][1].data)
            packed += record
        steadies = [steady for _, steady in gathered]
        expected: list[Any] = []

        def decide() -> Together:
            """Decide all of them, and each before as if it were the only one."""
            expected.extend(self._decided(_unknown(request)) for request, _ in gathered)
            found: Together = replica.shard.commit_together(steadies, packed, now_ms)
            return found

        batch = _Batch(self, [request for request, _ in gathered])
        left = replica.take_together(decide, batch)
        left = list(range(len(gathered))) if left is None else left
        self.taken += len(gathered) - len(left)
        for number, alone in enumerate(expected):
            if number not in left:
                self._judge(gathered[number], alone, now_ms)
        batch.requests = [each for number, each in enumerate(batch.requests) if number not in left]
        for number in left:
            gathered[number][1].column.blocks = None
            self._leave(gathered[number][0])
        self._process.wake()

    def _judge(self, taken: tuple[Request, Steady], alone: Any, now_ms: int) -> None:
        """Check that a commit that was taken is what the shard would have decided of it. An offset that goes
        back is found among those of one batch, too. Raises Violation."""
        request, steady = taken
        value = OffsetRowsValue(
            ((request.body.topics[0][1].data, now_ms, NO_EXPIRY, steady.column.topic_id),)
        )
        records, replies, events = alone
        as_taken = [(steady.column.key, value)]
        if (
            [tuple(each) for each in records] != as_taken
            or events
            or replies[0].body != steady.decided.answer
        ):
            raise Violation(
                f"taken commits: {self._process.name} takes {as_taken}, where the shard decides {alone}"
            )

    def answered(self, request: Request, body: Any) -> None:
        self._give(request.token, body)

    def refused(self, request: Request) -> None:
        self._give(request.token, self._replica.shard.refusal(request, ErrorCode.not_coordinator))


class _Batch:
    """Commits that were taken in one moment: `actors.replica.entry.Batch`."""

    def __init__(self, commits: TakenCommits, requests: list[Request]) -> None:
        self.requests = requests
        self._answers = [request.body.known.decided.answer for request in requests]
        self._by_token = {
            request.token: answer for request, answer in zip(requests, self._answers, strict=True)
        }
        self._commits = commits

    @property
    def owed(self) -> int:
        return len(self.requests)

    def committed(self) -> None:
        for request in self.requests:
            self._commits.answered(request, self._by_token[request.token])

    def refused(self) -> None:
        for request in self.requests:
            self._commits.refused(request)


def _unknown(request: Request) -> Request:
    return request._replace(body=request.body._replace(known=None))


def _record(request: Request, steady: Steady, now_ms: int) -> tuple[bytes, int]:
    """Return the packed record of a commit, and where its rows stand."""
    rows, topic_id = request.body.topics[0][1].data, steady.column.topic_id
    record = msgpack.packb((steady.column.key, (((rows, now_ms, NO_EXPIRY, topic_id),),)))
    return record, record.index(rows)
