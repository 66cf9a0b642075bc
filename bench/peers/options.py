"""The options of a comparison, and the errors of a peer that cannot do something."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

RATED_S_MAX: Final = 10.0
RATED_REQUESTS: Final = 5_000
"""How long a load at a fixed rate goes on, unless it has so many requests sooner."""


class Refused(Exception):
    """A peer cannot do this, so there is no figure; the text says why."""


class Failed(Exception):
    """A peer can do this, but it went wrong: an unexpected error, or no answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`seconds` is the length of each load. `quick` has small sizes and JVMs that are hardly warm, to see
    that everything works."""

    runs: int = 5
    seconds: float = 1.0
    quick: bool = False
    kafka_home: Path | None = None

    def rated_seconds(self, rate: float) -> float:
        """Return for how many seconds a load at `rate` requests a second counts: at a low rate one second has
        too few of them."""
        return self.seconds if self.quick else max(self.seconds, min(RATED_S_MAX, RATED_REQUESTS / rate))

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full
