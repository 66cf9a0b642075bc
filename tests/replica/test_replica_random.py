"""Random requests, commits, falls and elections: nothing acknowledged is lost, everybody is answered once."""

from __future__ import annotations

import pytest

from tests.replica.world import World

SEEDS = 40
STEPS = 150


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_histories(seed: int) -> None:
    """R2, R3, R4, R7, O10."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
