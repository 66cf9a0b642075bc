"""Through random requests, commits, lost leaderships and elections nothing acknowledged is lost and each
request is answered once."""

from __future__ import annotations

import pytest

from tests.replica.world import World

SEEDS = 40
STEPS = 150


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_histories(seed: int) -> None:
    """These are rules R2, R3, R4, R7 and O10."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
