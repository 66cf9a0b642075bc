"""Reading history: what cannot be read is named and left out, the rest is read.

Spark and DuckDB read the same files: `survey` says which of them are whole and no copies of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found, Segment

ATTEMPTS_MAX = 5


class Skipped(NamedTuple):
    """A file that is not read, or not to its end."""

    path: str
    why: str


class Survey(NamedTuple):
    """The segments to read, oldest first, and what is left out."""

    found: list[Found]
    rows: int
    skipped: list[Skipped]

    @property
    def paths(self) -> list[str]:
        """The paths of the segments below the folder of all history."""
        return [each.segment.path for each in self.found]


def survey(
    folder: Folder,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    offsets_partition: int | None = None,
) -> Survey:
    """Look at every segment of these days. `since_ms` and `until_ms` cut whole segments: rows are the
    caller's to cut. Raises OSError."""
    for _ in range(ATTEMPTS_MAX):
        listing = folder.segments(offsets_partition)
        wanted = [each for each in listing.found if _is_wanted(each.segment, since_ms, until_ms)]
        skipped = [Skipped(path, "no segment of history") for path in listing.foreign]
        try:
            return _checked(folder, wanted, skipped)
        except FileNotFoundError:
            continue  # compacted or expired since it was listed
    raise OSError(f"{folder.url}: segments vanish faster than they can be read")


def read(
    folder: Folder, found: list[Found], skipped: list[Skipped], columns: list[str] | None = None
) -> Iterator[pa.Table]:
    """Read the rows of segments, in pieces of bounded size. What turns out to be damaged is added to
    `skipped`."""
    for each in found:
        try:
            with parquet.opened(folder, each.segment) as (file, _):
                for number in range(file.num_row_groups):
                    yield parquet.row_group(file, number, columns)
        except (parquet.UnreadableSegment, FileNotFoundError) as error:
            skipped.append(Skipped(each.segment.path, str(error)))


def _is_wanted(segment: Segment, since_ms: int | None, until_ms: int | None) -> bool:
    return (since_ms is None or segment.day_ends_ms > since_ms) and (
        until_ms is None or segment.first_at_ms < until_ms
    )


def _checked(folder: Folder, wanted: list[Found], skipped: list[Skipped]) -> Survey:
    whole: list[Found] = []
    rows: dict[Segment, int] = {}
    replaced: set[tuple[str, str]] = set()
    for each in wanted:
        segment = each.segment
        try:
            with parquet.opened(folder, segment) as (file, about):
                rows[segment] = file.metadata.num_rows
        except parquet.UnreadableSegment as error:
            skipped.append(Skipped(segment.path, str(error)))
            continue
        whole.append(each)
        replaced |= {(segment.folder, name) for name in about.replaces}
    left = [each for each in whole if (each.segment.folder, each.segment.name) not in replaced]
    return Survey(left, sum(rows[each.segment] for each in left), sorted(skipped))
