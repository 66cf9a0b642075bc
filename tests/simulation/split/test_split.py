"""A partition is split under faults, and every known mistake in that is noticed."""

from __future__ import annotations

import inspect

import pytest

from tests.simulation.noticing import check_noticed
from tests.simulation.split.mutants import CONTROLLERS, SHARDS, TRANSACTIONS, CopiesBeforeTheSealIsCommitted
from tests.simulation.split.run import run
from tests.simulation.world import PRODUCTION

SEEDS = 8
EASY = [
    mutant
    for mutant in (*SHARDS, *CONTROLLERS)
    if mutant not in (*TRANSACTIONS, CopiesBeforeTheSealIsCommitted)
]
"""Mutants that one of the first seeds finds."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_split_ends_with_every_group_in_one_place(seed: int) -> None:
    played = run(seed)
    assert played.parent.noted.is_cut
    assert sum(half.answers.histories.commits for half in played.halves) > 0
    assert sum(reader.seen[0] for reader in played.readers) > 0, "nobody read what a transaction committed"
    assert min(map(sum, zip(*(each.ended for each in played.producers), strict=True))) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000, 3_000, 250))
def test_many_more_splits(first: int) -> None:
    for seed in range(first, first + 250):
        run(seed)


@pytest.mark.parametrize("mutant", EASY, ids=lambda mutant: mutant.__name__)
def test_an_easy_mistake_is_noticed_at_once(mutant: type) -> None:
    _check_noticed(mutant)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", [*TRANSACTIONS, CopiesBeforeTheSealIsCommitted])
def test_every_mistake_is_noticed(mutant: type) -> None:
    _check_noticed(mutant)


def _check_noticed(mutant: type) -> None:
    if mutant in SHARDS:
        check_noticed(lambda seed: run(seed, code=PRODUCTION._replace(shard=mutant)))
    else:
        check_noticed(lambda seed: run(seed, new_controller=mutant))


@pytest.mark.parametrize("mutant", [*SHARDS, *CONTROLLERS], ids=lambda mutant: mutant.__name__)
def test_a_mutant_changes_only_what_is_there(mutant: type) -> None:
    """Else a method renamed in production would turn it into the unchanged code, and nobody would notice."""
    [original] = mutant.__bases__
    changed = [name for name, value in vars(mutant).items() if inspect.isfunction(value)]
    assert changed or original.__name__.startswith("_")
    assert [name for name in changed if not hasattr(original, name)] == []
    assert mutant.__doc__, "its docstring says which rule it breaks"
