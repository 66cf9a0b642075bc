"""Makes the tables of a period, with either engine, and keeps them by date.

The day before the period and the one after are read too: what began before or ends after is seen whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, NoReturn

from storage.history.jobs.engine import ALL, ALL_EVENTS, Engine, Making
from storage.history.jobs.seen import NothingRecorded, Seen, look_around
from storage.history.jobs.store import Store
from storage.history.jobs.table import Table
from storage.history.jobs.tables import MADE, TABLES
from storage.history.jobs.what_if import Replay, replayed_with
from storage.history.period import Period
from storage.history.segments.folder import Folder

Say = Callable[[str], None]
ALWAYS: Final = Period(0, 2**62)


class WhatIf(NamedTuple):
    """Assignors to replay."""

    names: tuple[str, ...]
    replay: Replay


class Wanted(NamedTuple):
    """Which time the tables shall tell of, whether assignors are replayed, and how the tables are read."""

    period: Period | None = None
    """Tables of whole days also hold the days before and after, those of a shorter period only what happened
    in it; None: everything that was found."""
    what_if: WhatIf | None = None
    keeps_all: bool = False
    """Each table will be read several times, so that it is made only once."""


EVERYTHING: Final = Wanted()


def run(
    engine: Engine, folder: Folder, period: Period, asked: WhatIf | None = None, say: Say = print
) -> Seen:
    """Make all tables of the days of a period anew. Raises NothingRecorded and OSError."""
    days = period.days()
    seen = look_around(folder, days)
    store = Store(folder, say)
    with made(engine, folder, seen, Wanted(days, asked)) as tables:
        for table in tables:
            store.put(engine, table, days)
            say(f"{table.name} is made")
    return seen


@contextmanager
def made(engine: Engine, folder: Folder, seen: Seen, wanted: Wanted = EVERYTHING) -> Iterator[list[Table]]:
    """Let the engine know `events` and all wanted tables by their names. Raises NothingRecorded."""
    period, asked = wanted.period, wanted.what_if
    counted = ALWAYS if period is None or period.is_whole_days else period
    replayed = None if asked is None else replayed_with(asked.names, asked.replay)
    engine.read(folder, seen.found)
    engine.define("events", ALL)
    try:
        if not engine.look(counted) and period is not None:
            _refuse(engine, folder, period)
        engine.make(Making(counted, replayed, wanted.keeps_all))
        if period is not None and not period.is_whole_days:
            within = f"at_ms >= {period.since_ms} AND at_ms < {period.until_ms}"
            engine.define("events", f"{ALL} WHERE {within}")
        yield list(MADE if asked is None else TABLES)
    finally:
        engine.forget()


def _refuse(engine: Engine, folder: Folder, period: Period) -> NoReturn:
    """Segments are of days: whether anything happened in a part of one, only their events tell."""
    [found] = engine.rows(f"SELECT min(at_ms) AS first_ms, max(at_ms) AS last_ms FROM {ALL_EVENTS}")
    around = Period(found["first_ms"], found["last_ms"])
    raise NothingRecorded(f"nothing recorded from {period} in {folder.url}: there are events from {around}")
