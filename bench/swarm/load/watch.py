"""Looks every second of a run at what its server needs, if the server's processes are known and on this
machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import psutil

from bench.ground.throwaway import pss_mib
from bench.peers.peer import CpuClock
from bench.swarm.counted.needs import FILE, Need
from bench.swarm.rows.second import Second

LOOK_EVERY: Final = 5
"""The seconds between two searches for processes that were started meanwhile."""
Pids = Callable[[], list[int]]
"""A function that finds the server's processes. Raises psutil.Error, OSError while there are none."""


class Watch:
    """Watches a server. It is a context manager, and called with every second of the swarm."""

    def __init__(self, directory: Path, pids: Pids) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = (directory / FILE).open("w", encoding="utf-8")
        self._pids = pids
        self._known: list[int] = []
        self._clock = CpuClock([])
        self._since_s = 0.0
        self._seconds = 0

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()

    def __call__(self, second: Second) -> None:
        took_s = second.at_s - self._since_s
        with contextlib.suppress(psutil.Error, OSError):  # a server that cannot be watched ends no run
            if self._known and took_s > 0:
                self._write(second.at_s, self._clock.seconds() / took_s)
            if self._seconds % LOOK_EVERY == 0:
                self._known = self._pids()
        self._seconds += 1
        self._clock, self._since_s = CpuClock(self._known), second.at_s

    def _write(self, at_s: float, cores: float) -> None:
        memory_mib = pss_mib(_alive(self._known))
        need = Need(round(at_s, 3), round(cores, 4), round(memory_mib, 1), len(self._known))
        self._file.write(json.dumps(need) + "\n")
        self._file.flush()


def _alive(pids: Sequence[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found
