"""The clock of all rows: microseconds of the conductor's monotonic clock, on whatever machine a worker is.

Processes of one machine share that clock; on another machine it is told from the wall clocks, which differ by
what NTP leaves.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Reading(NamedTuple):
    """What the clocks of one machine show."""

    boot_id: str
    wall_us: int
    """The wall clock's time when the machine's monotonic clock was zero."""


def reading() -> Reading:
    wall_us = (time.time_ns() - time.monotonic_ns()) // 1000
    return Reading(_BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "", wall_us)


class Clock:
    """The clock of one process."""

    def __init__(self) -> None:
        self._shift_us = 0

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000 + self._shift_us

    def follow(self, conductor: Reading) -> None:
        """Count from the conductor's zero from now on."""
        own = reading()
        self._shift_us = 0 if own.boot_id == conductor.boot_id else own.wall_us - conductor.wall_us


CLOCK: Final = Clock()
now_us: Final = CLOCK.now_us
