"""Makes tables with tasks beside each other: each has the groups of some offsets partitions (`fold`).

Two passes. The first tells who is where, which offsets partitions share groups and from when until when the
tier is known; the second makes the tables. What looks at the tier as a whole is made here, of all sums.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np

from storage.history.jobs.bundles import apart, bytes_of, packed
from storage.history.jobs.definitions import OF_TIER, SUMS
from storage.history.jobs.embedded import embedded
from storage.history.jobs.engine import EngineError, Making, Row
from storage.history.jobs.fold import Bundle, Refused, answered, folded, looked, together
from storage.history.jobs.staged import Staged, part_url
from storage.history.jobs.table import Table
from storage.history.jobs.tables import named
from storage.history.period import Period
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found

NOBODY: Final = np.empty(0, np.uint64)
JOINED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What is joined in a second or two."""


class Workers(NamedTuple):
    """Who does the work, and how much of it at once."""

    call: Callable[[Callable[[Any], Any], list[Any]], list[Any]]
    """Calls a function with each of these, wherever; returns the answers in order."""
    slots: int
    """How many tasks run at once."""
    slots_together: int
    """How many of them share the memory and the processors of one process."""
    memory: str
    """The memory that these have together."""


class Folding:
    """The making of some segments' tables. Methods raise EngineError and OSError."""

    def __init__(self, workers: Workers, folder: Folder, found: list[Found]) -> None:
        self._workers = workers
        self._folder = folder
        self._found = found
        self._known: list[Row] = []
        self._sets: list[frozenset[int]] = []

    def look(self, counted: Period) -> bool:
        """The first pass. Returns whether any event counts."""
        numbers = sorted({each.segment.offsets_partition for each in self._found})
        bundles = self._bundles([frozenset({number}) for number in numbers])
        looks = self._ask(looked, [(bundle, counted) for bundle in bundles])
        self._known = together(looks)
        groups = {number: hashes for each in looks for number, hashes in each.groups.items()}
        self._sets = apart({**dict.fromkeys(numbers, NOBODY), **groups})
        return bool(self._known)

    def make(self, making: Making, staged: Staged) -> None:
        """The second pass, into a folder that all workers can write into. Call `look` first."""
        bundles = self._bundles(self._sets)
        parts = self._ask(folded, [(each, self._known, making, staged.url) for each in bundles])
        staged.parts.extend(parts)
        if parts:
            staged.parts.append(self._made_of_tier(making, staged))

    def _made_of_tier(self, making: Making, staged: Staged) -> str:
        part = uuid4().hex
        with embedded(self._folder.url, self._workers.memory) as engine:
            for each in SUMS:
                engine.read_plain(each.name, staged.folders(each.name))
            engine.make_of_tier(making)
            for each in OF_TIER:
                engine.write(named(each.name), None, part_url(staged.url, each.name, part))
        return part

    def _ask(self, work: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> list[Any]:
        if not tasks:
            return []
        answers = self._workers.call(lambda task: answered(work, *task), tasks)
        refused = next((each for each in answers if isinstance(each, Refused)), None)
        if refused is not None:
            raise EngineError(refused.why)
        return answers

    def _bundles(self, sets: list[frozenset[int]]) -> list[Bundle]:
        """Make as many bundles as tasks run at once. One that has more than its share of the bytes gets
        threads of tasks beside it that have less to do."""
        slots, together, memory = self._workers[1:]
        all_bytes = max(1, bytes_of(self._found))
        return [
            Bundle(
                self._folder.url,
                found,
                share(memory, min(together, slots)),
                max(1, min(together, round(slots * bytes_of(found) / all_bytes))),
            )
            for found in packed(self._found, sets, slots)
        ]


def write(staged: Staged, table: Table, days: Period, url: str) -> None:
    """Write what a table has of these days into a folder that is not there yet: a file a day, unless to join
    them would keep the others waiting for long. Raises EngineError and OSError."""
    if staged.bytes_of(table.name) > JOINED_BYTES_MAX:
        staged.copy(table.name, days, url)
        return
    with embedded(staged.url, threads=1) as engine:
        engine.open_all(table, staged.folders(table.name))
        engine.write(table, days, url)


def share(memory: str, count: int) -> str:
    """A part of so much memory, such as 2g, as DuckDB takes it; what is not understood stays as it is."""
    found = re.fullmatch(r"(\d+)([kmgt])b?", memory.strip().lower())
    if found is None:
        return memory
    kib = int(found[1]) * 1024 ** "kmgt".index(found[2])
    return f"{max(1, kib // 1024 // count)}MiB"
