"""Nodes are drained under faults, and every known mistake in that is noticed."""

from __future__ import annotations

import inspect

import pytest

from tests.simulation.drain.mutants import (
    LEADERS,
    RECONCILERS,
    LetsTheOldVoterGoFirst,
    OffersLeadershipToTheDrained,
    VotesBeforeItHasCaughtUp,
    code_with,
)
from tests.simulation.drain.run import run
from tests.simulation.noticing import check_noticed

SEEDS = 4
EASY = (LetsTheOldVoterGoFirst, VotesBeforeItHasCaughtUp, OffersLeadershipToTheDrained)
"""Mutants that one of the first seeds finds at once, and not by waiting for what never comes."""
HARD = [mutant for mutant in (*LEADERS, *RECONCILERS) if mutant not in EASY]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_drained_node_ends_without_a_vote_and_nothing_acknowledged_is_lost(seed: int) -> None:
    played = run(seed)
    assert played.tier.draining()
    assert played.tier.dismissed_at, "no replica has moved: such a world proves nothing"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1_000, 3_000, 250))
def test_many_more_drains(first: int) -> None:
    for seed in range(first, first + 250):
        run(seed)


@pytest.mark.parametrize("mutant", EASY, ids=lambda mutant: mutant.__name__)
def test_an_easy_mistake_is_noticed_at_once(mutant: type) -> None:
    _check_noticed(mutant)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", HARD, ids=lambda mutant: mutant.__name__)
def test_every_mistake_is_noticed(mutant: type) -> None:
    _check_noticed(mutant)


def _check_noticed(mutant: type) -> None:
    if mutant in LEADERS:
        check_noticed(lambda seed: run(seed, code=code_with(mutant)))
    else:
        check_noticed(lambda seed: run(seed, reconciler=mutant))


@pytest.mark.parametrize("mutant", [*LEADERS, *RECONCILERS], ids=lambda mutant: mutant.__name__)
def test_a_mutant_changes_only_what_is_there(mutant: type) -> None:
    """Else a method renamed in production would turn it into the unchanged code, and nobody would notice."""
    [original] = mutant.__bases__
    changed = [name for name, value in vars(mutant).items() if inspect.isfunction(value)]
    assert changed
    assert any(hasattr(original, name) for name in changed)
    assert mutant.__doc__, "its docstring says which rule it breaks"
