"""What an engine does: it reads segments, makes relations of SQL, and keeps tables as Parquet.

There are two: `on_spark` for any size, `embedded` (DuckDB) for what one process handles well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from storage.history.jobs.table import Table
from storage.history.period import Period
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found

Row = dict[str, Any]
ALL_EVENTS: Final = "all_events"
"""The relation of what was read, each event once."""
ALL: Final = f"SELECT * FROM {ALL_EVENTS}"
NAME: Final = ("offsets_partition", "term", "sequence")
"""The columns that identify an event for ever."""
Replayed = Callable[[Any, Any, Any], list[list[Row]]]
"""Columns of groups, turns and topics of `memberships`, as lists -> each group's rows."""


class EngineError(Exception):
    """An engine refused a query or cannot do it; the text says why in a line."""


class Making(NamedTuple):
    """How tables are to be made."""

    counted: Period
    """Events in it count; the others that were read only tell how it began and how it went on."""
    replayed: Replayed | None = None
    """What makes `what_if`; None: it is not asked for."""
    keeps_all: bool = False
    """Each table will be read several times, so that it is made only once."""


class Engine(Protocol):
    """Queries are in DuckDB's SQL. Relations are known by their names until the engine ends."""

    name: str

    def read(self, folder: Folder, found: list[Found]) -> None:
        """Let ALL_EVENTS stand for the events of these segments."""

    def define(self, name: str, query: str) -> None:
        """Let a name mean a query."""

    def rows(self, query: str, limit: int | None = None) -> list[Row]:
        """The rows of a query."""

    def look(self, counted: Period) -> bool:
        """Make ready what tables are made of. Returns whether any event counts."""

    def make(self, making: Making) -> None:
        """Make the tables, and let their names mean them. Call `look` first."""

    def write(self, table: Table, days: Period, url: str) -> None:
        """Write what a table that was made has of these days as Parquet by `date`, into a folder that is not
        there yet."""

    def open(self, table: Table, url: str | None) -> None:
        """Let a table's name mean what is in its folder; nothing if there is none."""

    def forget(self) -> None:
        """Give back what was kept to make tables; they can be read no longer."""


def by_overlap(found: Sequence[Found]) -> tuple[list[Found], list[Found]]:
    """Segments that share no event with another; those that may. Their names tell."""

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


def paths(folder: Folder, found: Sequence[Found]) -> list[str]:
    return [f"{folder.url.rstrip('/')}/{each.segment.path}" for each in found]


def literal(text: str) -> str:
    """Write a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def as_rows(names: Sequence[str], values: Sequence[Sequence[Any]]) -> list[Row]:
    return [dict(zip(names, each, strict=True)) for each in values]
