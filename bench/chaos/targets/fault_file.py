"""The file that tells a tier's replicas what they suffer (`raft.faults.file`): several faults at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage.raft.injected import LOOK_INTERVAL_S, Faults

SEEN_S: Final = 2 * LOOK_INTERVAL_S
"""The time after which every replica that gets a processor has read the file."""


class FaultFile:
    """The file of one run; nobody else writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._faults: list[Faults] = []
        self._guard = threading.Lock()
        self._write()

    def add(self, faults: Faults) -> Callable[[], None]:
        """Let the replicas suffer these faults, too. Returns, once they do, a function that ends just
        these."""
        with self._guard:
            self._faults.append(faults)
            self._write()
        time.sleep(SEEN_S)
        return lambda: self._remove(faults)

    def _remove(self, faults: Faults) -> None:
        with self._guard:
            # Compared by identity: two injuries may do the same.
            self._faults = [each for each in self._faults if each is not faults]
            self._write()

    def _write(self) -> None:
        every = self._faults
        Faults(
            tuple(link for each in every for link in each.links),
            tuple(disk for each in every for disk in each.disks),
            tuple(clock for each in every for clock in each.clocks),
        ).write(self.path)
