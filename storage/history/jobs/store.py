"""The tables on disk: Parquet by date in a folder beside the history, where nobody takes them for events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

import fsspec

from storage.history.jobs.engine import Engine
from storage.history.jobs.table import Table
from storage.history.jobs.tables import TABLES
from storage.history.period import Period
from storage.history.segments.folder import Folder

SUFFIX: Final = "-tables"
INSIDE: Final = "_tables"
"""Where tables were kept once: below the history itself. Still so for a history that is a whole bucket, which
has nothing beside it."""
CHECKPOINT: Final = ".checkpoint"
"""Where a follower of a history notes how far it came."""


class Store:
    """Days are made anew as a whole and put in place of what there was, so that a second run, also one after
    late events or after a crash, leaves the same as the first."""

    def __init__(self, folder: Folder, say: Callable[[str], None] = lambda _: None) -> None:
        """Tables that lie inside the history are moved out of it, and `say` is told."""
        self.url = tables_url(folder.url)
        self._fs, self._root = fsspec.url_to_fs(self.url)
        self._fs.invalidate_cache()
        inside = f"{folder.url.rstrip('/')}/{INSIDE}"
        if inside != self.url and self._fs.exists(fsspec.url_to_fs(inside)[1]):
            say(self._take_over(inside))

    def put(self, engine: Engine, table: Table, period: Period) -> None:
        """Replace all that the table has of these days."""
        staging = f".{table.name}-{uuid4().hex}"
        self._fs.makedirs(self._root, exist_ok=True)
        try:
            engine.write(table, period, f"{self.url}/{staging}")
            self._swap(table, staging, period)
        finally:
            self._remove(staging)

    def open(self, engine: Engine) -> None:
        """Let queries know all tables by their names; one that was never made has no rows."""
        for table in TABLES:
            days = [path for path in self._ls(table.name) if path.rsplit("/", 1)[-1].startswith("date=")]
            engine.open(table, f"{self.url}/{table.name}" if days else None)

    def is_empty(self) -> bool:
        """Whether nothing was ever made."""
        return not any(self._fs.exists(f"{self._root}/{table.name}") for table in TABLES)

    def _take_over(self, inside: str) -> str:
        if self._fs.exists(self._root):
            return f"{inside} is read no longer, the tables are in {self.url}: remove it"
        self._fs.mv(fsspec.url_to_fs(inside)[1], self._root, recursive=True)
        self._fs.invalidate_cache()
        return f"The tables were moved from {inside} to {self.url}"

    def _swap(self, table: Table, staging: str, period: Period) -> None:
        """Day by day: readers miss a day for an instant, and never see half of one."""
        made = {path.rsplit("/", 1)[-1] for path in self._ls(staging)}
        self._fs.makedirs(f"{self._root}/{table.name}", exist_ok=True)
        there = {path.rsplit("/", 1)[-1] for path in self._ls(table.name)}
        first, last = f"date={period.first}", f"date={period.last}"
        for day in sorted(made | {day for day in there if first <= day <= last}):
            if not day.startswith("date="):
                continue
            if day in there:
                self._remove(f"{table.name}/{day}")
            if day in made:
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


def tables_url(history_url: str) -> str:
    """The URL of the folder of tables: it lies beside the history and has its name with SUFFIX."""
    history_url = history_url.rstrip("/")
    below = history_url.partition("://")[2] or history_url
    return f"{history_url}{SUFFIX}" if "/" in below or "://" not in history_url else f"{history_url}/{INSIDE}"
