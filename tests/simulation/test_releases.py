"""Replicas of two releases in one group: levels are finalized under faults, and nobody is sent what it cannot
read. In some of the same runs clients are silent for a while, and leaders rest."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.run import run

SEEDS = range(40)


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """What happened in the runs."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        world = run(seed)
        releases, rests = world.releases, world.rests
        seen["mixed"] += releases.are_mixed
        seen["exchanged"] += releases.exchanged
        seen["finalized"] += releases.level > 1
        seen["read of level 2"] += releases.read[2]
        seen["runs with rests"] += rests.heard > 0
        seen["rests"] += rests.heard
    return seen


def test_a_level_is_finalized_while_replicas_of_two_releases_come_and_go(seen: Counter[str]) -> None:
    assert seen["mixed"] > 3, f"{seen}: such runs prove nothing"
    assert seen["exchanged"] > 10, f"{seen}: such runs prove nothing"
    assert seen["finalized"] > 1, f"{seen}: such runs prove nothing"
    assert seen["read of level 2"] > 100, f"{seen}: such runs prove nothing"


def test_leaders_rest_while_clients_are_silent(seen: Counter[str]) -> None:
    assert seen["runs with rests"] > 5, f"{seen}: such runs prove nothing"
    assert seen["rests"] > 30, f"{seen}: such runs prove nothing"
