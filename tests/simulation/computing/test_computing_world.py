"""Members that compute, under faults: what is taken is what one was asked for, and the group comes to rest by
it (A9 to A11); and every known mistake in that is noticed."""

from __future__ import annotations

import pytest

from tests.simulation.computing.mutants import MUTANTS
from tests.simulation.computing.world import run
from tests.simulation.noticing import Mutant, check_mutant_noticed

SEEDS = range(21, 31)


def test_what_members_compute_is_taken_through_failovers() -> None:
    """Everything that is judged happens in these seeds."""
    judges = [run(seed).judge for seed in SEEDS]
    assert sum(judge.taken for judge in judges) > 2 * len(SEEDS)
    assert sum(judge.refused for judge in judges) > 2 * len(SEEDS)
    assert sum(judge.interrupted for judge in judges) > 5, "leaders fall while somebody computes"
    assert sum(judge.at_next for judge in judges) > 0, "groups go on meanwhile"
    assert sum(judge.fallbacks for judge in judges) > 0, "everybody fails"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000, 2_000, 250))
def test_many_more_seeds(first: int) -> None:
    for seed in range(first, first + 250):
        run(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_every_mistake_is_noticed(mutant: Mutant) -> None:
    check_mutant_noticed(mutant, run, MUTANTS[mutant])
