"""A walk over all offsets of a shard in slices, so that a million of them hold up no heartbeat."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter

from actors.coordinator.ground.state import ShardState
from actors.coordinator.ground.volatile import Stop
from actors.ground.records import Position

STOPS_PER_SLICE_MAX = 2_000
"""How many stops a slice has: about 2 ms if every offset goes. Slices are a slot of the timers apart
(`Timers.schedule_late`)."""


def stops(state: ShardState) -> Iterator[Stop]:
    """Every offset, committed or pending, and behind a group's offsets its end. A group may come again: there
    need be nothing left of it by then. What is written while the walk pauses may be missed."""
    for offsets in (state.offsets, state.pending_offsets):
        for group_id in list(offsets):
            for position in list(offsets.get(group_id, ())):
                yield group_id, position
            yield group_id, None
    for groups in (*(groups for groups, _ in state.groups_by_kind), state.simple_groups):
        for group_id in list(groups):
            if group_id not in state.offsets:
                yield group_id, None


def next_slice(walk: Iterator[Stop]) -> tuple[list[tuple[str, list[Position | None]]], bool]:
    """The next stops, by group, and whether they are the last."""
    taken = list(islice(walk, STOPS_PER_SLICE_MAX))
    groups = [
        (group_id, [position for _, position in of_group])
        for group_id, of_group in groupby(taken, itemgetter(0))
    ]
    return groups, len(taken) < STOPS_PER_SLICE_MAX
