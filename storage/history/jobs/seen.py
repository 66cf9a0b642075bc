"""Which segments there are to read of a period; what cannot be read is named and left out."""

from __future__ import annotations

from typing import NamedTuple

from storage.history.period import Period
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found, date_of
from storage.history.segments.reader import Skipped, survey


class Seen(NamedTuple):
    """The segments and tables that tell of a period."""

    found: list[Found]
    skipped: list[Skipped]
    rows: int

    @property
    def dates(self) -> list[str]:
        return sorted({date_of(each.segment.first_at_ms) for each in self.found})

    def of(self, period: Period) -> list[Found]:
        """Segments that may hold events of the period itself, not only of the days beside it."""
        return [
            each
            for each in self.found
            if each.segment.first_at_ms < period.until_ms and each.segment.day_ends_ms > period.since_ms
        ]


class NothingRecorded(Exception):
    """There are no events of what was asked for; says what there is."""


def look(folder: Folder, period: Period | None = None) -> Seen:
    """The segments of a period, or of all time. Raises OSError."""
    since_ms, until_ms = (None, None) if period is None else period
    found = survey(folder, since_ms=since_ms, until_ms=until_ms)
    return Seen(found.found, found.skipped, found.rows)


def look_around(folder: Folder, period: Period) -> Seen:
    """The segments of a period, of the day before it and of the one after. Raises NothingRecorded and
    OSError."""
    seen = look(folder, period.wider())
    if not seen.of(period):
        raise NothingRecorded(nothing(folder, period))
    return seen


def nothing(folder: Folder, period: Period) -> str:
    """Why there is no answer, and what there is."""
    dates = look(folder).dates
    there = f"there are events from {dates[0]} to {dates[-1]}" if dates else "there is no history at all"
    return f"nothing recorded from {period} in {folder.url}: {there}"
