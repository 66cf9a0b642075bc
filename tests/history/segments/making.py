"""Events, folders and waiting, for the tests of segments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from actors.coordinator.told.events import CLASSIC, StateChanged
from storage.history.schema import Stretch
from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment
from storage.history.segments.writer import SegmentWriter

NOON_MS = 1_795_348_800_000
"""The time 2026-11-22 12:00 UTC."""
PARTITION = 3
NODE = 1
TERM = 5
TIER = "tier"


class Moved(NamedTuple):
    """An event with a field that is no plain value."""

    at_ms: int
    group_id: str
    moves: tuple[Any, ...] | None
    waited_for: tuple[str, ...] | None

    @property
    def kind(self) -> str:
        return "rebalance_ended"


def changed(number: int, at_ms: int | None = None) -> StateChanged:
    """Make an event of one of seven groups."""
    at_ms = NOON_MS + number if at_ms is None else at_ms
    return StateChanged(at_ms, f"group-{number % 7}", CLASSIC, number, "Empty", "Stable", number % 3)


def stretch(events: Iterable[Any], *, term: int = TERM, first: int = 1) -> Stretch:
    return Stretch(term, first, list(events))


def rewritten_as_version_1(path: Path) -> None:
    """Write a segment as the release before this schema version did: without the column that is new."""
    old = pq.read_table(path, partitioning=None).drop_columns(["session_timeout_ms"])
    place = old.column_names.index("version")
    old = old.set_column(place, "version", pa.array([1] * old.num_rows, pa.int32()))
    metadata = {parquet.VERSION_KEY: b"1", parquet.TIER_KEY: TIER.encode()}
    pq.write_table(old.replace_schema_metadata(metadata), path)


def publish(folder: Folder, events: Stretch) -> list[Segment]:
    """Write a segment of these events for each day that they happened on."""
    writer = SegmentWriter(folder, TIER, PARTITION, NODE, lambda: None)
    assert writer.add([events]) == 0
    written = writer.publish()
    assert (written.lost, written.error) == (0, None)
    return list(written.segments)
