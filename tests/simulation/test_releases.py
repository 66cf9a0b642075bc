"""Replicas of two releases in one group: levels are finalized under faults, and nobody is sent what it cannot
read."""

from __future__ import annotations

from collections import Counter

from tests.simulation.run import run

SEEDS = range(40)


def test_a_level_is_finalized_while_replicas_of_two_releases_come_and_go() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        releases = run(seed).releases
        seen["mixed"] += releases.are_mixed
        seen["exchanged"] += releases.exchanged
        seen["finalized"] += releases.level > 1
        seen["read of level 2"] += releases.read[2]
    assert seen["mixed"] > 3, f"{seen}: such runs prove nothing"
    assert seen["exchanged"] > 10, f"{seen}: such runs prove nothing"
    assert seen["finalized"] > 1, f"{seen}: such runs prove nothing"
    assert seen["read of level 2"] > 100, f"{seen}: such runs prove nothing"
