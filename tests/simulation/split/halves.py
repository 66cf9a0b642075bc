"""Two worlds with one time: the Raft groups of an offsets partition and of its child."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from actors.coordinator.ground.state import Home
from actors.ground.image import MetadataImage
from tests.simulation.machines import COORDINATOR, image_of
from tests.simulation.parts import Process
from tests.simulation.together import Together
from tests.simulation.world import Code, Trace

PARTITIONS = 2
"""How many offsets partitions there are after the split."""
PARENT, CHILD = 0, 1


class Image:
    """What the controller has noted of the split."""

    is_cut = False
    """Whether the child serves what has moved."""


class Half(Together):
    """One of the two groups. Its clients are those of the run, which ask both."""

    def __init__(self, seed: int, code: Code, trace: Trace | None, others: list[Half]) -> None:
        """`others` are the halves made before, the first of which has the clock."""
        self.halves = others
        self.noted = others[PARENT].noted if others else Image()
        self.take: Callable[[Process, Any], None] = lambda process, event: None
        """What takes the events of processes."""
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
            half.image_version += 1
            half.spread_image()

    def spread_image(self) -> None:
        """Have coordinators hear of the newest image, each in its own time."""
        for process in self.processes():
            self.after(self.chance.uniform(0, 0.3), partial(self._tell, process))

    def _tell(self, process: Process) -> None:
        process.on_metadata(self.image())

    def image(self) -> MetadataImage:
        unmoved = () if self.noted.is_cut else (PARENT,)
        leaders = (0,) * PARTITIONS
        return image_of(self.image_version, self.releases.level, offsets_leaders=leaders, unmoved=unmoved)

    def on_event(self, process: Process, event: Any) -> None:
        self.take(process, event)
