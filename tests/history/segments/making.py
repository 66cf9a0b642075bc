"""Events, folders and waiting, for the tests of segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.coordinator.events import CLASSIC, StateChanged
from storage.history.schema import Recorded
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment
from storage.history.segments.writer import SegmentWriter

NOON_MS = 1_795_348_800_000
"""2026-11-22, 12:00 UTC."""
PARTITION = 3
NODE = 1
TIER = "tier"


class Moved(NamedTuple):
    """With what is no plain value."""

    at_ms: int
    group_id: str
    moves: tuple[Any, ...] | None
    waited_for: tuple[str, ...] | None

    @property
    def kind(self) -> str:
        return "rebalance_ended"


def changed(number: int, at_ms: int | None = None) -> StateChanged:
    """An event of some group."""
    at_ms = NOON_MS + number if at_ms is None else at_ms
    return StateChanged(at_ms, f"group-{number % 7}", CLASSIC, number, "Empty", "Stable", number % 3)


def recorded(
    events: Iterable[Any], *, term: int = 5, first: int = 1, partition: int = PARTITION
) -> list[Recorded]:
    return [Recorded(partition, NODE, term, number, event) for number, event in enumerate(events, first)]


def publish(folder: Folder, events: Iterable[Recorded]) -> list[Segment]:
    """One segment of these events for each of their days."""
    taken = list(events)
    writer = SegmentWriter(folder, TIER, taken[0].offsets_partition, NODE, lambda: None)
    assert writer.add(taken) == 0
    written = writer.publish()
    assert (written.lost, written.error) == (0, None)
    return list(written.segments)
