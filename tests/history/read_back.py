"""A small history read whole, for tests that look at every event."""

from __future__ import annotations

import pyarrow as pa

from storage.history.schema import arrow_schema
from storage.history.segments.folder import Folder
from storage.history.segments.reader import Skipped, read, survey


def read_all(folder: Folder, *, columns: list[str] | None = None) -> tuple[pa.Table, list[Skipped]]:
    """Read all segments, oldest first. Returns their rows, and the files that were left out."""
    seen = survey(folder)
    skipped = list(seen.skipped)
    tables = list(read(folder, seen.found, skipped, columns))
    names = arrow_schema().names if columns is None else columns
    empty = pa.schema([arrow_schema().field(name) for name in names]).empty_table()
    return pa.concat_tables([empty, *tables]), skipped
