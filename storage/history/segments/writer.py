"""Writes one leader's events to segments, synchronously; `actors.leader.history_writer` is the thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from storage.history.schema import Stretch
from storage.history.segments import parquet
from storage.history.segments.columns import Columns, Origin
from storage.history.segments.folder import Folder
from storage.history.segments.names import DAY_MS, Segment

DROPPED_KIND: Final = "events_dropped"
GIVEN_BACK_FROM_BYTES: Final = 2 << 20
"""A segment of this size or more gives its memory back to the system: a storm of joins leaves tens of MB that
nothing else needs. What is smaller is kept, for the next segment would have its pages cleared anew."""


class Written(NamedTuple):
    """The outcome of publishing: what was written and what was lost."""

    segments: tuple[Segment, ...] = ()
    lost: int = 0
    """Events that are in no segment, those included that a lost `events_dropped` told of."""
    error: Exception | None = None
    """The error that kept events from being written, if the folder is to blame."""


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
        """About how many bytes the events take in memory."""
        return 0 if self._columns is None else self._columns.size_bytes

    @property
    def term(self) -> int | None:
        """Term of the segment in the making: events of another must wait until it is published."""
        return None if self._columns is None else self._columns.origin.term

    def add(self, stretches: Sequence[Stretch]) -> int:
        """Take events of one term. Returns how many cannot be written."""
        term = stretches[0].term
        if self._columns is None:
            self._columns = Columns(Origin(self._partition, self._node_id, term), self._rest)
        assert self._columns.origin.term == term, "a segment has one term"
        return self._columns.add(stretches)

    def publish(self) -> Written:
        """Write what there is, a segment for each day. Never raises for what the folder does."""
        size_bytes = self.size_bytes
        columns, self._columns = self._columns, None
        if columns is None:
            return Written()
        tables, lost = columns.take()
        days = _by_day(tables)
        del tables
        error: Exception | None = None
        segments = []
        while days:
            parts = days.pop(0)
            segment = segment_of(parts, columns.origin)
            try:
                self._folder.publish(segment, partial(parquet.write, tables=parts, about=self._about))
            except Exception as failure:  # each of fsspec's file systems has its own
                error = failure
                lost += sum(map(_count, parts))
            else:
                segments.append(segment)
            self._free(parts)
        if size_bytes >= GIVEN_BACK_FROM_BYTES:
            parquet.give_back()
        return Written(tuple(segments), lost, error)

    def _free(self, tables: list[pa.Table]) -> None:
        """Column by column: to free all at once would hold up other threads for tens of milliseconds."""
        while tables:
            table = tables.pop()
            while table.num_columns:
                table = table.remove_column(0)
                self._rest()


def segment_of(tables: Sequence[pa.Table], origin: Origin) -> Segment:
    """Return the name of the segment for tables of one day."""
    first_at_ms = min(pc.min(table["at_ms"]).as_py() for table in tables)
    sequences = [pc.min_max(table["sequence"]).as_py() for table in tables]
    return Segment(
        origin.offsets_partition,
        first_at_ms,
        origin.term,
        min(each["min"] for each in sequences),
        max(each["max"] for each in sequences),
    )


def _by_day(tables: Iterable[pa.Table]) -> list[list[pa.Table]]:
    """Group tables by the day of their events, the oldest day first."""
    of_day: dict[int, list[pa.Table]] = {}
    for table in tables:
        at_ms = table["at_ms"]
        least, most = (each // DAY_MS for each in pc.min_max(at_ms).as_py().values())
        for day in range(least, most + 1):
            part = table if least == most else table.filter(pc.equal(pc.divide(at_ms, DAY_MS), day))
            if part.num_rows:
                of_day.setdefault(day, []).append(part)
    return [of_day[day] for day in sorted(of_day)]


def _count(lost: pa.Table) -> int:
    """Events, and those that were dropped before as its rows tell."""
    told = lost.filter(pc.equal(lost["kind"], DROPPED_KIND))
    return int(lost.num_rows - told.num_rows + (pc.sum(told["count"]).as_py() or 0))
