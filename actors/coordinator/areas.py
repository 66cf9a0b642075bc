"""All areas of a shard together: by API, by kind of record and by timer, who is responsible."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from actors.catalog.api import Refusal
from actors.catalog.table import COORDINATED
from actors.coordinator import admin, restore
from actors.coordinator.ground.area import Applier, Area, Fire, Handler
from actors.coordinator.ground.kind import Kind
from actors.coordinator.kinds import Handlers, handlers_of
from actors.coordinator.offsets import commits, dying, expiry
from actors.coordinator.split import arrival, seal
from actors.coordinator.take_over import taking
from actors.coordinator.transactions import coordinator, offset_commit, views

_BEFORE: tuple[Area, ...] = (offset_commit.AREA, commits.AREA, expiry.AREA, dying.AREA)
"""What is pending comes before what is committed: who writes both as Kafka does has to know it then
(`kafka_records.loadable`)."""
_AFTER: tuple[Area, ...] = (
    admin.AREA,
    restore.AREA,
    coordinator.AREA,
    views.AREA,
    seal.AREA,
    arrival.AREA,
    taking.AREA,
)


class Areas(NamedTuple):
    """What a shard that serves certain kinds of groups is made of."""

    every: tuple[Area, ...]
    """All areas, in the order in which they give their records and are told of an election."""
    handlers: Mapping[int, Handler]
    """The handler that is asked first, by API key."""
    of_kinds: Handlers
    """API key -> name of a kind -> who answers for its groups."""
    refusals: Mapping[int, Refusal]
    """The answer that refuses, by API key."""
    appliers: Mapping[int, Applier]
    """The applier of each kind of record."""
    timers: Mapping[str, Fire]
    """First field of a timer's key -> who carries it out."""


@cache
def areas(kinds: tuple[Kind, ...]) -> Areas:
    """The areas of these kinds of groups, and of what serves all kinds."""
    of_kinds = handlers_of(kinds)
    every = (*_BEFORE, *(area for kind in kinds for area in kind.areas), *_AFTER)
    return Areas(
        every,
        {key: next(iter(each.values())) for key, each in of_kinds.items()}
        | {key: handler for area in (*_BEFORE, *_AFTER) for key, handler in area.handlers.items()},
        of_kinds,
        {key: row.refuse for key, row in COORDINATED.items()}
        | {key: each for area in every for key, each in area.refusals.items()},
        {record: each for area in every for record, each in area.appliers.items()},
        {name: each for area in every for name, each in area.timers.items()},
    )
