"""What a comparison is asked to do, and how a peer says that it does not do it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class Refused(Exception):
    """A peer does not do this: there is no figure, and this is why."""


class Failed(Exception):
    """It does, and it went wrong: an error where there should be none, no answer where one is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`seconds` of each load; `quick`: small sizes and JVMs hardly warm, to see that all works."""

    runs: int = 5
    seconds: float = 1.0
    quick: bool = False
    kafka_home: Path | None = None

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full
