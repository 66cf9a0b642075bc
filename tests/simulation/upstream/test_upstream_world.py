"""Leaders of an upstream cluster follow Raft's whatever others do and whatever is lost, by the rules of Kafka
4.3 and by those of 4.4; and every known mistake in that is noticed."""

from __future__ import annotations

import pytest

from tests.simulation.noticing import Mutant, check_mutant_noticed
from tests.simulation.upstream.mutants import MUTANTS
from tests.simulation.upstream.world import run

SEEDS = 25


@pytest.mark.parametrize("seed", range(SEEDS))
def test_upstream_leaders_become_those_of_raft(seed: int) -> None:
    world = run(seed)
    assert world.checks.moves > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1_000, 3_000, 500))
def test_many_more_seeds(first: int) -> None:
    for seed in range(first, first + 500):
        run(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_every_mistake_is_noticed(mutant: Mutant) -> None:
    check_mutant_noticed(mutant, run)
