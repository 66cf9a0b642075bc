"""What one task does: it makes the tables of the groups of some offsets partitions, with DuckDB.

Groups never span offsets partitions (a partition and those that splits made of it are in one task), so that
no event has to be sent to another task. Tables come out as Parquet in a folder that is the attempt's own: of
an attempt that failed nobody reads anything. Workers must be able to import this, and DuckDB.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np

from storage.history.jobs.definitions import KNOWN, OF_GROUPS, SUMS, query
from storage.history.jobs.embedded import DuckDbMissing, embedded
from storage.history.jobs.engine import EngineError, Making, Row
from storage.history.jobs.staged import part_url
from storage.history.jobs.tables import named
from storage.history.jobs.what_if import WHAT_IF
from storage.history.period import Period
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found

T = TypeVar("T")


class Bundle(NamedTuple):
    """Some segments, and what there is to work with."""

    url: str
    """The history's."""
    found: list[Found]
    memory: str
    """What DuckDB may take of it."""
    threads: int


class Looked(NamedTuple):
    """What a first look at a bundle found."""

    known: list[Row]
    """It says for each day since and until when there are events that count."""
    groups: dict[int, Any]
    """Hashes of the names of the groups in each offsets partition, as numpy arrays."""


class Refused(NamedTuple):
    """A bundle that cannot be worked on, and why: to do it again would be of no use."""

    why: str


def looked(bundle: Bundle, counted: Period) -> Looked:
    """Look at who is where, and when. Raises EngineError and DuckDbMissing."""
    with embedded(bundle.url, bundle.memory, bundle.threads) as engine:
        engine.read(Folder(bundle.url), bundle.found)
        engine.define("seen", query("first_look", counted), keep=True)
        known = engine.rows(
            "SELECT date, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM seen GROUP BY date"
            " HAVING min(first_ms) IS NOT NULL"
        )
        hashes = engine.rows(
            "SELECT offsets_partition, list(DISTINCT CAST(md5_number_lower(group_id) AS UBIGINT)) AS hashes"
            " FROM seen WHERE group_id IS NOT NULL GROUP BY offsets_partition"
        )
    return Looked(known, {row["offsets_partition"]: np.array(row["hashes"], np.uint64) for row in hashes})


def together(looks: list[Looked]) -> list[Row]:
    """What is known of each day, by all bundles."""
    days: dict[dt.date, Row] = {}
    for row in (row for each in looks for row in each.known):
        day = days.setdefault(row["date"], row)
        day["first_ms"] = min(day["first_ms"], row["first_ms"])
        day["last_ms"] = max(day["last_ms"], row["last_ms"])
    return list(days.values())


def folded(bundle: Bundle, known: list[Row], making: Making, url: str) -> str:
    """Make the tables of a bundle's groups, and the sums that the tier's are made of, below a URL.

    `known` is the tier's. Returns the name of the part that they are. Raises EngineError and DuckDbMissing.
    """
    part = uuid4().hex
    with embedded(bundle.url, bundle.memory, bundle.threads) as engine:
        engine.read(Folder(bundle.url), bundle.found)
        engine.look(making.counted, {KNOWN: _rows_of_known(known)})
        engine.make_of_groups(making)
        for name in (each.name for each in OF_GROUPS):
            engine.write(named(name), None, part_url(url, name, part))
        for name in (each.name for each in SUMS):
            engine.write_plain(name, part_url(url, name, part))
        if making.replayed is not None:
            engine.write(WHAT_IF, None, part_url(url, WHAT_IF.name, part))
    return part


def answered(work: Callable[..., T], *args: Any) -> T | Refused:
    """Do it; what nobody can mend by trying again is an answer, which Spark would otherwise try again."""
    try:
        return work(*args)
    except (EngineError, DuckDbMissing, OSError) as error:
        return Refused(str(error))


def _rows_of_known(known: list[Row]) -> str:
    """The SQL of these rows."""
    values = [f"(DATE '{row['date']}', {row['first_ms']}, {row['last_ms']})" for row in known]
    listed = ", ".join(values or ["(NULL, NULL, NULL)"])
    columns = "date::DATE AS date, first_ms::BIGINT AS first_ms, last_ms::BIGINT AS last_ms"
    return f"SELECT {columns} FROM (VALUES {listed}) AS known(date, first_ms, last_ms) WHERE date IS NOT NULL"
