"""What the rows of a run tell before anything is counted."""

from __future__ import annotations

from typing import NamedTuple

from bench.swarm.counted.columns import Columns
from bench.swarm.counted.gaps import Gap
from bench.swarm.counted.lives import Lives


class Observed(NamedTuple):
    """A run's calls as columns, the lives of its members and groups, and when it was."""

    columns: Columns
    lives: Lives
    gaps: list[Gap]
    """Times in which groups had no coordinator, by group and time."""
    began_us: int
    ended_us: int

    @property
    def duration_s(self) -> float:
        """How long the run was; never 0, so that rates can be told."""
        return max((self.ended_us - self.began_us) / 1e6, 1e-6)
