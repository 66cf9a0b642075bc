"""Runs the jobs on a period and keeps what they make as Parquet, by date, below `_tables` of the history.

A day is made anew as a whole and put in place of what there was, so that a second run, also one after late
events or after a crash, leaves the same as the first. The day before the period and the one after are read
too, but not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import fsspec

from storage.history.jobs.digest import digest
from storage.history.jobs.events import Period, Seen, events, look
from storage.history.jobs.table import Table
from storage.history.jobs.tables import JOBS, TABLES, named
from storage.history.jobs.what_if import Replay, what_if
from storage.history.segments.folder import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER: Final = "_tables"
"""Below the folder of history: hidden from those who look for segments."""
KEPT: Final = ("rebalances", "members", "capacity")
"""Tables that others are made of: kept in memory until all are written."""
Say = Callable[[str], None]


class NothingRecorded(Exception):
    """There are no events of what was asked for; says what there is."""


class WhatIf(NamedTuple):
    """Assignors to replay."""

    names: tuple[str, ...]
    replay: Replay


def run(
    spark: SparkSession, folder: Folder, period: Period, asked: WhatIf | None = None, say: Say = print
) -> Seen:
    """Make all tables of a period. Raises NothingRecorded and OSError."""
    seen = look(folder, period.wider())
    if not any(period.since_ms <= each.segment.first_at_ms < period.until_ms for each in seen.found):
        raise NothingRecorded(nothing(folder, period))
    with made(spark, folder, seen, asked) as tables:
        store = Store(folder)
        for name, table in tables.items():
            store.put(named(name), table, period)
            say(f"{name} is made")
    return seen


@contextmanager
def made(
    spark: SparkSession, folder: Folder, seen: Seen, asked: WhatIf | None = None
) -> Iterator[dict[str, DataFrame]]:
    """All tables as DataFrames, not yet computed."""
    from pyspark import StorageLevel

    parts = digest(events(spark, folder, seen.found))
    for kept in (parts.lives, parts.hours):
        kept.persist(StorageLevel.MEMORY_AND_DISK)
    tables: dict[str, DataFrame] = {}
    try:
        for table, job in JOBS:
            found = job(parts, tables)
            tables[table.name] = found.persist(StorageLevel.MEMORY_AND_DISK) if table.name in KEPT else found
        if asked is not None:
            tables["what_if"] = what_if(parts.events, parts.lives, asked.names, asked.replay)
        yield tables
    finally:
        for kept in (parts.lives, parts.hours, *(tables[name] for name in KEPT if name in tables)):
            kept.unpersist()


def nothing(folder: Folder, period: Period) -> str:
    """Why there is no answer, and what there is."""
    dates = look(folder).dates
    there = f"there are events from {dates[0]} to {dates[-1]}" if dates else "there is no history at all"
    return f"nothing recorded from {period.first} to {period.last} in {folder.url}: {there}"


class Store:
    """The tables on disk."""

    def __init__(self, folder: Folder) -> None:
        self.url = f"{folder.url.rstrip('/')}/{FOLDER}"
        self._fs, self._root = fsspec.url_to_fs(self.url)

    def put(self, table: Table, frame: DataFrame, period: Period) -> None:
        """In place of all that the table has of these days."""
        staging = f".{table.name}-{uuid4().hex}"
        try:
            (
                frame.where(f"date BETWEEN '{period.first}' AND '{period.last}'")
                .repartition("date")  # a file a day
                .write.partitionBy("date")
                .option("compression", "zstd")
                .parquet(f"{self.url}/{staging}")
            )
            self._swap(table, staging, period)
        finally:
            self._remove(staging)

    def read(self, spark: SparkSession, table: Table) -> DataFrame:
        """All days of a table; no rows if it was never made."""
        if not self._fs.exists(f"{self._root}/{table.name}"):
            return spark.createDataFrame([], table.ddl)
        return spark.read.schema(table.ddl).parquet(f"{self.url}/{table.name}")

    def is_empty(self) -> bool:
        """Whether nothing was ever made."""
        return not self._fs.exists(self._root)

    def register(self, spark: SparkSession) -> None:
        """Let SQL know the tables by their names."""
        for table in TABLES:
            self.read(spark, table).createOrReplaceTempView(table.name)

    def _swap(self, table: Table, staging: str, period: Period) -> None:
        """Day by day: readers miss a day for an instant, and never see half of one."""
        made_ = {path.rsplit("/", 1)[-1] for path in self._ls(staging)}
        self._fs.makedirs(f"{self._root}/{table.name}", exist_ok=True)
        there = {path.rsplit("/", 1)[-1] for path in self._ls(table.name)}
        first, last = f"date={period.first}", f"date={period.last}"
        for day in sorted(made_ | {day for day in there if first <= day <= last}):
            if not day.startswith("date="):
                continue
            if day in there:
                self._remove(f"{table.name}/{day}")
            if day in made_:
                self._move(f"{staging}/{day}", f"{table.name}/{day}")

    def _move(self, name: str, to: str) -> None:
        """File by file: an object store has nothing else."""
        self._fs.makedirs(f"{self._root}/{to}", exist_ok=True)
        for path in self._fs.find(f"{self._root}/{name}"):
            self._fs.mv(path, f"{self._root}/{to}/{path.rsplit('/', 1)[-1]}")

    def _ls(self, name: str) -> list[Any]:
        self._fs.invalidate_cache()
        try:
            return list(self._fs.ls(f"{self._root}/{name}", detail=False))
        except FileNotFoundError:  # an object store has no empty directories
            return []

    def _remove(self, name: str) -> None:
        if self._fs.exists(f"{self._root}/{name}"):
            self._fs.rm(f"{self._root}/{name}", recursive=True)
