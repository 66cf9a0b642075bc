"""Events in, segments out: one leader's, synchronous. The thread around it is `actors.history_writer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from storage.history.schema import Recorded
from storage.history.segments import parquet
from storage.history.segments.columns import Columns, Origin
from storage.history.segments.folder import Folder
from storage.history.segments.names import DAY_MS, Segment

DROPPED_KIND: Final = "events_dropped"


class Written(NamedTuple):
    """What became of events."""

    segments: tuple[Segment, ...] = ()
    lost: int = 0
    """Events that are in no segment, those included that a lost `events_dropped` told of."""
    error: Exception | None = None
    """Why, where the folder is to blame."""


class SegmentWriter:
    """Has at most one segment in the making and says how large it is; its owner says when to publish it."""

    def __init__(
        self, folder: Folder, tier_id: str, offsets_partition: int, node_id: int, rest: Callable[[], None]
    ) -> None:
        """`rest` is called after each short piece of work, for other threads to have the interpreter."""
        self._folder = folder
        self._about = parquet.About(tier_id)
        self._partition = offsets_partition
        self._node_id = node_id
        self._rest = rest
        self._columns: Columns | None = None

    @property
    def rows(self) -> int:
        return 0 if self._columns is None else self._columns.rows

    @property
    def size_bytes(self) -> int:
        """In memory, about."""
        return 0 if self._columns is None else self._columns.size_bytes

    @property
    def term(self) -> int | None:
        """Of the segment in the making: events of another must wait until it is published."""
        return None if self._columns is None else self._columns.origin.term

    def add(self, recorded: Sequence[Recorded]) -> int:
        """Take events of one term. Returns how many cannot be written."""
        term = recorded[0].term
        if self._columns is None:
            self._columns = Columns(Origin(self._partition, self._node_id, term), self._rest)
        assert self._columns.origin.term == term, "a segment has one term"
        return self._columns.add(recorded)

    def publish(self) -> Written:
        """Write what there is, a segment for each day. Never raises for what the folder does."""
        columns, self._columns = self._columns, None
        if columns is None:
            return Written()
        table, lost = columns.take()
        parts = [] if table is None else _by_day(table)
        del table
        error: Exception | None = None
        segments = []
        while parts:
            part = parts.pop(0)
            segment = segment_of(part, columns.origin)
            try:
                self._folder.publish(segment, partial(parquet.write, tables=[part], about=self._about))
            except Exception as failure:  # each of fsspec's file systems has its own
                error = failure
                lost += _count(part)
            else:
                segments.append(segment)
            while part.num_columns:  # one by one: to free all at once would hold up other threads
                part = part.remove_column(0)
                self._rest()
        return Written(tuple(segments), lost, error)


def segment_of(table: pa.Table, origin: Origin) -> Segment:
    """The name for a table of one day that is in the order of sequences."""
    at_ms, sequences = table["at_ms"], table["sequence"]
    return Segment(
        origin.offsets_partition,
        pc.min(at_ms).as_py(),
        origin.term,
        sequences[0].as_py(),
        sequences[-1].as_py(),
    )


def _by_day(table: pa.Table) -> list[pa.Table]:
    at_ms = table["at_ms"]
    least, most = pc.min_max(at_ms).as_py().values()
    if least // DAY_MS == most // DAY_MS:
        return [table]
    days = pc.divide(at_ms, DAY_MS)
    return [table.filter(pc.equal(days, day)) for day in days.unique()]


def _count(lost: pa.Table) -> int:
    """Events, and those that were dropped before as its rows tell."""
    told = lost.filter(pc.equal(lost["kind"], DROPPED_KIND))
    return int(lost.num_rows - told.num_rows + (pc.sum(told["count"]).as_py() or 0))
