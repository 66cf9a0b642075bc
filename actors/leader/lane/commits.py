"""The commits of known layouts that the lane takes: many are decided at once, and answered at once.

The law of the lane (`memory.py`) holds for them with these changes:

1. **What is taken.** A whole frame, the last one that was read on a connection to which nothing is owed, that
   differs from a commit which Python has decided in correlation id, offsets and leader epochs alone, and of
   which no offset is lower than the one before. The compiled function writes its record and its answer.
2. **Who decides.** `actors.coordinator.offsets.together`, anew for each commit, in one pass over all that one
   call has taken. So nothing has to be forgotten in time: what is not as it was is left, and Python serves
   its bytes as if they had just come.
3. **When it is answered.** When the entry that has the record is committed, by one compiled call; with
   NOT_COORDINATOR if this replica leads no more. Until then the connection owes an answer: what else comes
   on it goes to Python, which waits for it, and who hands the connection over does, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgpack
import numpy as np
from kio.schema.errors import ErrorCode

from actors.coordinator.offsets.together import Column, Steady, may_be
from actors.coordinator.shard import CoordinatorShard
from actors.ground.limits import LANE_COMMITS_MAX
from actors.ground.records import NO_EXPIRY
from actors.leader.lane import compiled
from actors.leader.lane.neighbours import Commit
from actors.leader.lane.tables import Tables
from actors.metrics.counts import ApiCounts
from actors.network.connection import Connection
from actors.network.frames import with_length
from actors.protocol.commit_layout import rows_at
from actors.protocol.offset_rows import ROW_BYTES, column_of
from actors.replica.host import ReplicaHost

LAYOUTS_OF_A_CONNECTION: Final = 4
_BATCHES_MAX: Final = 1_024
"""How many batches may wait; beyond it all commits are Python's."""


class Layout(Steady):
    """A layout of commits, and where the compiled function finds it."""

    __slots__ = ("known", "number", "place")

    def __init__(self, known: Commit, request: Any, column: Column) -> None:
        super().__init__(request, known.decided, column)
        self.known = known
        self.number = -1
        """The row of `CommitTables.layouts` that it has."""
        self.place: _Place | None = None


class _Place:
    """A column that layouts share."""

    __slots__ = ("column", "layouts", "number", "whose")

    def __init__(self, whose: tuple[Any, ...], column: Column, number: int) -> None:
        self.whose = whose
        self.column = column
        self.number = number
        self.layouts = 0
        """How many have it."""


class Lent(Protocol):
    """A connection that is lent to the lane."""

    connection: Connection
    seat: int
    layouts: dict[Commit, Layout]


class _Batch:
    """Commits that were taken in one call: `actors.replica.entry.Batch`."""

    def __init__(
        self, commits: Commits, ticket: int, rows: Any, answers: bytes, layouts: list[Layout]
    ) -> None:
        self.ticket = ticket
        self.rows = rows
        self.answers = answers
        self.answers_array = np.frombuffer(answers, np.uint8)
        self.layouts = layouts
        self.apart: list[tuple[int, Connection]] = []
        """The rows of those that Python answers, and their connections."""
        self.owed = len(rows)
        self._commits = commits

    def committed(self) -> None:
        self._commits.answer(self)

    def refused(self) -> None:
        self._commits.refuse(self)

    def answer_of(self, row: int) -> bytes:
        begin = int(self.rows[row, compiled.T_ANSWER])
        return self.answers[begin : begin + int(self.rows[row, compiled.T_ANSWER_SIZE])]


class Commits:
    """The commits of one lane. `seated` has who sits where; `counts` counts answers to OffsetCommit."""

    def __init__(
        self,
        host: ReplicaHost,
        tables: Tables,
        seated: dict[int, Any],
        counts: ApiCounts,
        answering: Callable[..., int],
    ) -> None:
        self._host = host
        self._replica = host.replica
        self._tables = tables
        self._seated = seated
        self._counts = counts
        self._answering = answering
        self._layouts: dict[int, Layout] = {}
        self._places: dict[tuple[Any, ...], _Place] = {}
        self._batches: dict[int, _Batch] = {}
        """The batches that wait, by their tickets."""
        self._ticket = 0
        self.taken = 0
        """How many it has taken, and were decided together."""

    @property
    def next_ticket(self) -> int:
        """Return the ticket of the next batch; 0: there are too many."""
        return self._ticket + 1 if len(self._batches) < _BATCHES_MAX else 0

    # Layouts.

    def learn(self, lent: Lent, known: Commit, frame: bytes) -> None:
        """Take the next commits of this layout on this connection. Python has just decided `frame`."""
        shard = self._replica.shard
        assert isinstance(shard, CoordinatorShard)
        layout = lent.layouts.get(known)
        if layout is not None and layout.decided is known.decided:
            self._read(layout, frame)
            return
        if layout is not None:
            self.forget(lent, layout)
        answer = known.answer(bytes(4))
        if answer is None or not may_be(known.decided, shard.state) or len(self._layouts) >= LANE_COMMITS_MAX:
            return
        if len(lent.layouts) == LAYOUTS_OF_A_CONNECTION:
            self.forget(lent, next(iter(lent.layouts.values())))
        found = _written(known, frame, answer)
        if found is not None:
            self._add(lent, known, frame, *found)

    def _add(
        self, lent: Lent, known: Commit, frame: bytes, facts: tuple[int, ...], frames: tuple[bytes, ...]
    ) -> None:
        tables = self._tables.commits
        if tables.is_full:
            tables.grow()
            self._tables.renew()
        key, topic_id = known.decided.topics[0]
        begin, end = known.layout.spans[0]
        rows = rows_at(frame, begin, end)
        whose = (key, topic_id, column_of(rows))
        place = self._places.get(whose)
        if place is None:
            place = self._places[whose] = _Place(whose, Column(key, topic_id), tables.take_column())
        place.layouts += 1
        layout = Layout(known, known.request(0, frame), place.column)
        layout.place, layout.number = place, tables.take_layout()
        layout.record_bytes = facts[compiled.L_RECORD]
        layout.rows_at = facts[compiled.L_RECORD_ROWS_AT]
        layout.rows_end = layout.rows_at + len(rows)
        facts = (*facts[: compiled.L_COLUMN], place.number, -1)
        tables.write(layout.number, facts, *frames)
        self._layouts[layout.number] = lent.layouts[known] = layout
        self._chain(lent)
        self._read(layout, frame)

    def _read(self, layout: Layout, frame: bytes) -> None:
        """Note what the group has now, unless that is known."""
        place, shard = layout.place, self._replica.shard
        assert place is not None
        assert isinstance(shard, CoordinatorShard)
        begin, end = layout.known.layout.spans[0]
        found = place.column.read(shard.state, rows_at(frame, begin, end))
        if found is not None:
            numbers = np.frombuffer(found, _ROW)["offset"]
            self._tables.commits.columns[place.number, : len(numbers)] = numbers

    def forget(self, lent: Lent, layout: Layout | None = None) -> None:
        """Forget a layout of a connection; None: all of them."""
        for each in list(lent.layouts.values()) if layout is None else (layout,):
            del lent.layouts[each.known]
            del self._layouts[each.number]
            self._tables.commits.free_layout(each.number)
            place = each.place
            assert place is not None
            place.layouts -= 1
            if not place.layouts:
                del self._places[place.whose]
                self._tables.commits.free_column(place.number)
        self._chain(lent)

    def _chain(self, lent: Lent) -> None:
        """Have the compiled function find the layouts of a connection, the newest first."""
        first = -1
        for layout in lent.layouts.values():
            self._tables.commits.layouts[layout.number, compiled.L_NEXT] = first
            first = layout.number
        self._tables.seats[compiled.COMMITS, lent.seat] = first

    # Commits.

    def take(self, taken: int, records_bytes: int, answers_bytes: int, now_ms: int) -> None:
        """Decide what one call of the compiled function has taken."""
        tables, replica, shard = self._tables.commits, self._replica, self._replica.shard
        assert isinstance(shard, CoordinatorShard)
        self._ticket += 1
        rows = tables.taken[:taken].copy()
        layouts = list(map(self._layouts.__getitem__, rows[:, compiled.T_LAYOUT].tolist()))
        packed = tables.records[:records_bytes].tobytes()
        batch = _Batch(self, self._ticket, rows, tables.answers[:answers_bytes].tobytes(), layouts)
        self._batches[self._ticket] = batch
        left = replica.take_together(partial(shard.commit_together, layouts, packed, now_ms), batch)
        if left is None:
            left = list(range(taken))
        self.taken += taken - len(left)
        if len(left) == taken:
            del self._batches[self._ticket]
        if left:
            self._leave(batch, left)
        self._host.wake()

    def _leave(self, batch: _Batch, left: list[int]) -> None:
        """Give what is left to Python, as if it had just come."""
        seats, room, given = self._tables.seats, self._tables.room, []
        batch.owed -= len(left)
        for row in left:
            seat, _, begin, size = batch.rows[row, : compiled.T_ANSWER].tolist()
            batch.rows[row, compiled.T_SEAT] = -1
            seats[compiled.OWES, seat] = 0
            given.append((self._seated[seat], room[begin : begin + size].tobytes()))
        for lent, data in given:
            lent.connection.data_received(data)
            lent.lane.settles(lent)

    def let_owe(self, lent: Lent) -> None:
        """Have the connection wait for the answer of its commit, if it has one in a batch."""
        seats = self._tables.seats
        batch = self._batches.get(int(seats[compiled.OWES, lent.seat]))
        if batch is not None:
            seats[compiled.OWES, lent.seat] = 0
            row = int(np.flatnonzero(batch.rows[:, compiled.T_SEAT] == lent.seat)[0])
            batch.rows[row, compiled.T_SEAT] = -1
            batch.apart.append((row, lent.connection))
            lent.connection.owe()

    def answer(self, batch: _Batch) -> None:
        """Answer a batch."""
        del self._batches[batch.ticket]
        self._counts.fine += batch.owed
        tables = self._tables
        sent = tables.commits.sent
        unsent = self._answering(batch.ticket, batch.rows, batch.answers_array, tables.seats, sent)
        for row, size in sent[:unsent].tolist():
            lent = self._seated[int(batch.rows[row, compiled.T_SEAT])]
            lent.connection.take_back(batch.answer_of(row)[size:])
        for row, connection in batch.apart:
            connection.answer(batch.answer_of(row))

    def refuse(self, batch: _Batch) -> None:
        """Answer a batch with NOT_COORDINATOR."""
        for seat in batch.rows[:, compiled.T_SEAT].tolist():
            if seat >= 0 and self._tables.seats[compiled.OWES, seat] == batch.ticket:
                self.let_owe(self._seated[seat])
        del self._batches[batch.ticket]
        for row, connection in batch.apart:
            layout = batch.layouts[row]
            refused = self._replica.shard.refusal(layout.request, ErrorCode.not_coordinator)
            connection.answer(layout.known.pack(refused, batch.answer_of(row)[4:8]))


_ROW: Final = np.dtype([("partition", ">i4"), ("offset", ">i8"), ("leader_epoch", ">i4")])
_NOW_MS: Final = 1 << 40
"""A time as large as those of today: it takes as many bytes."""


def _written(known: Commit, frame: bytes, answer: bytes) -> tuple[tuple[int, ...], tuple[bytes, ...]] | None:
    """Return facts and frames of a layout, as `compiled` has them; None if it is too large."""
    begin, end = known.layout.spans[0]
    rows = rows_at(frame, begin, end)
    key, topic_id = known.decided.topics[0]
    record = msgpack.packb([key, (((rows, _NOW_MS, NO_EXPIRY, topic_id),),)])
    behind = msgpack.packb(NO_EXPIRY) + msgpack.packb(topic_id)
    now_at = len(record) - len(behind) - 8
    rows_begin = now_at - 1 - len(rows)
    assert record[rows_begin : now_at - 1] == rows
    assert int.from_bytes(record[now_at : now_at + 8], "big") == _NOW_MS
    request = with_length(frame)
    mask = b"\xff" * 4 + known.layout.mask.to_bytes(len(frame), "little")
    longest = max(len(request), len(record), len(answer))
    if longest > compiled.LAYOUT_BYTES_MAX or len(rows) // ROW_BYTES > compiled.ROWS_OF_LAYOUT_MAX:
        return None
    facts = (
        len(request),
        len(rows) // ROW_BYTES,
        4 + begin,
        len(record),
        rows_begin,
        now_at,
        len(answer),
        0,
        -1,
    )
    return facts, (request, mask, record, answer)
