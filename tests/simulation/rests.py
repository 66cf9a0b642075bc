"""Runs in which clients are silent for a while, so that leaders rest, and ask again when nobody expects it.

While faults last there are lulls. A request that comes in a lull waits for its end; a few do not, and find a
leader that rests, or one that was cut off meanwhile.
"""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.parts import World

PLAYED: Final = 0.4
"""How often a run has lulls."""
AFTER_S: Final = 0.05
"""How long nobody has asked a leader that rests."""
LULL_S: Final = (0.3, 1.6)
BETWEEN_S: Final = (0.05, 0.4)
HASTY: Final = 0.01
"""How many requests do not wait."""


class Rests:
    """The lulls of a run. It draws from a chance of its own: the other faults stay as they are."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"rests of {seed}")
        self.are_played = self._chance.random() < PLAYED
        self.after_s = AFTER_S if self.are_played else float("inf")
        self._lull_until = 0.0
        self.heard = 0
        """How often a replica heard that its leader rests."""
        self.woken = 0
        """How often a request has not waited for the end of a lull."""

    def start(self) -> None:
        if self.are_played:
            self._world.after(self._chance.uniform(0.5, 1.5), self._lull)

    def _lull(self) -> None:
        world, length = self._world, self._chance.uniform(*LULL_S)
        if world.is_healed:
            return
        self._lull_until = world.now + length
        world.note("clients", f"are silent for {length:.2f} s")
        world.after(length + self._chance.uniform(*BETWEEN_S), self._lull)

    def waits_until(self) -> float | None:
        """Return until when a request has to wait; None: it need not."""
        if self._world.is_healed or self._world.now >= self._lull_until:
            return None
        if self._chance.random() < HASTY:
            self.woken += 1
            return None
        return self._lull_until
