"""Segments as one DataFrame of events, each event once; what cannot be read is named and left out."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.history.schema import COLUMNS, MOVES, TEXTS
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found, date_of
from storage.history.segments.reader import Skipped, survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS: Final = 86_400_000
TYPES: Final = {
    "string": "string",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    MOVES: "array<struct<topic: string, partition: int, from_member: string, to_member: string>>",
    TEXTS: "array<string>",
}
DDL: Final = ", ".join(f"`{column.name}` {TYPES[column.type]}" for column in COLUMNS)
NAME: Final = ("offsets_partition", "term", "sequence")
"""What names an event for ever."""


class Period(NamedTuple):
    """Whole days of UTC, the last included."""

    first: dt.date
    last: dt.date

    @property
    def since_ms(self) -> int:
        return _ms(self.first)

    @property
    def until_ms(self) -> int:
        return _ms(self.last) + DAY_MS

    def wider(self) -> Period:
        """With the day before and the day after: what began before or ends after is seen whole."""
        day = dt.timedelta(days=1)
        return Period(self.first - day, self.last + day)


class Seen(NamedTuple):
    """What there is to read of a period."""

    found: list[Found]
    skipped: list[Skipped]
    rows: int

    @property
    def dates(self) -> list[str]:
        return sorted({date_of(each.segment.first_at_ms) for each in self.found})


def look(folder: Folder, period: Period | None = None) -> Seen:
    """The segments of a period, or of all time. Raises OSError."""
    since_ms, until_ms = (None, None) if period is None else (period.since_ms, period.until_ms)
    found = survey(folder, since_ms=since_ms, until_ms=until_ms)
    return Seen(found.found, found.skipped, found.rows)


def events(spark: SparkSession, folder: Folder, found: list[Found]) -> DataFrame:
    """Their events, each once. Segments' names tell which may hold the same ones: only those are compared."""
    alone, alike = _by_overlap(found)
    read = spark.read.schema(DDL)
    whole = read.parquet(*_paths(folder, alone)) if alone else spark.createDataFrame([], DDL)
    if alike:
        whole = whole.unionByName(read.parquet(*_paths(folder, alike)).dropDuplicates(list(NAME)))
    return whole


def _by_overlap(found: list[Found]) -> tuple[list[Found], list[Found]]:
    """Segments that share no event with another; those that may."""

    def key(each: Found) -> tuple[int, int, int]:
        return each.segment.offsets_partition, each.segment.term, each.segment.first_sequence

    alike: set[Found] = set()
    leads: tuple[int, int] | None = None
    furthest: Found | None = None
    for each in sorted(found, key=key):
        segment = each.segment
        if furthest is None or leads != (segment.offsets_partition, segment.term):
            leads, furthest = (segment.offsets_partition, segment.term), each
            continue
        if segment.first_sequence <= furthest.segment.last_sequence:
            alike |= {furthest, each}
        if segment.last_sequence > furthest.segment.last_sequence:
            furthest = each
    return [each for each in found if each not in alike], sorted(alike)


def _paths(folder: Folder, found: list[Found]) -> list[str]:
    return [f"{folder.url.rstrip('/')}/{each.segment.path}" for each in found]


def _ms(date: dt.date) -> int:
    return int(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp() * 1_000)
