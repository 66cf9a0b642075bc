"""Consumers of a coordinator that pushes, under faults: no partition has two owners, no offset goes back (D4,
D5, D8, D10), and whatever becomes of the topics, all is read in the end (D7, D9); and every known mistake in
that is noticed."""

from __future__ import annotations

import pytest

from tests.simulation.noticing import Mutant, check_mutant_noticed
from tests.simulation.push.mutants import MUTANTS
from tests.simulation.push.world import run

SEEDS = 12


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_partition_has_one_owner_and_no_offset_goes_back(seed: int) -> None:
    world = run(seed)
    assert world.owners.judge.starts > 0
    assert world.answers.pushes > world.owners.judge.starts


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000, 3_000, 500))
def test_many_more_seeds(first: int) -> None:
    for seed in range(first, first + 500):
        run(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_every_mistake_is_noticed(mutant: Mutant) -> None:
    check_mutant_noticed(mutant, run)
