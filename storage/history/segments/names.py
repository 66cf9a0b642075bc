"""What a segment is called, and what its name alone tells: whose it is, since when, which events.

    date=2026-11-22/offsets_partition=3/1795361916000-7-1201-1840.parquet
                                        first at_ms - term - first sequence - last sequence

A compacted segment ends in `-compacted.parquet` and stands for all of its term between its sequences. Names
that begin with a dot or an underscore are no segments yet, or never: readers (Spark too) pass them over.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

DAY_MS: Final = 24 * 3_600 * 1_000
DATE: Final = "date="
PARTITION: Final = "offsets_partition="
HIDDEN: Final = (".", "_")
TEMPORARY_SUFFIX: Final = ".tmp"
_PATH: Final = re.compile(
    rf"{DATE}\d{{4}}-\d\d-\d\d/{PARTITION}(\d+)/(\d+)-(\d+)-(\d+)-(\d+)(-compacted)?\.parquet"
)


def date_of(at_ms: int) -> str:
    """The day of UTC, as 2026-11-22."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


class Segment(NamedTuple):
    """One file of events of one leader in one term and of one day."""

    offsets_partition: int
    first_at_ms: int
    term: int
    first_sequence: int
    last_sequence: int
    compacted: bool = False

    @property
    def folder(self) -> str:
        return f"{DATE}{date_of(self.first_at_ms)}/{PARTITION}{self.offsets_partition}"

    @property
    def name(self) -> str:
        numbers = f"{self.first_at_ms}-{self.term}-{self.first_sequence}-{self.last_sequence}"
        return f"{numbers}{'-compacted' if self.compacted else ''}.parquet"

    @property
    def path(self) -> str:
        """The segment's path below the folder of all history, with slashes."""
        return f"{self.folder}/{self.name}"

    @property
    def day_ends_ms(self) -> int:
        """The time, in ms, before which all of its events happened: the end of their day."""
        return (self.first_at_ms // DAY_MS + 1) * DAY_MS

    def covers(self, other: Segment) -> bool:
        """Whether it was made from that one, and perhaps from others."""
        return (
            self.compacted
            and self != other
            and (self.folder, self.term) == (other.folder, other.term)
            and self.first_sequence <= other.first_sequence
            and other.last_sequence <= self.last_sequence
        )


class Found(NamedTuple):
    """A segment that is there."""

    segment: Segment
    size_bytes: int


def parse(path: str) -> Segment | None:
    """The segment at a path below the folder of all history; None: that is no segment's path."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    *numbers, compacted = match.groups()
    partition, first_at_ms, term, first, last = map(int, numbers)
    segment = Segment(partition, first_at_ms, term, first, last, compacted is not None)
    return segment if segment.path == path else None


def is_hidden(path: str) -> bool:
    """Whether a part of the path says that it is not for readers."""
    return any(part.startswith(HIDDEN) for part in path.split("/"))
