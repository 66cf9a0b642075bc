"""Two worlds with one time: the Raft groups of an offsets partition and of its child."""

from __future__ import annotations

from typing import Any

from actors.coordinator.ground.state import Home
from tests.simulation.machines import COORDINATOR
from tests.simulation.together import Together
from tests.simulation.world import Code, Trace

PARTITIONS = 2
"""How many offsets partitions there are after the split."""
PARENT, CHILD = 0, 1


class Half(Together):
    """One of the two groups. Its clients are those of the run, which ask both."""

    def __init__(self, seed: int, code: Code, trace: Trace | None, others: list[Half]) -> None:
        """`others` are the halves made before, the first of which has the clock."""
        self.halves = others
        is_child = bool(others)
        self.home = Home(CHILD if is_child else PARENT, is_child)
        self.initial = "c" if is_child else "r"
        super().__init__(2 * seed + is_child, others, code=code, trace=trace)  # type: ignore[arg-type]
        self.kind = COORDINATOR
        self.answers.judge = lambda: None  # type: ignore[method-assign]

    def _clients(self) -> list[Any]:
        return []

    def change_topics(self) -> None:
        for half in self.halves:
            super(Half, half).change_topics()
