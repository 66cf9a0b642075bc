"""The power of the checkers: each known mistake, put into the production code, turns some seed red."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.table import MARKDOWN, NOT_CAUGHT, caught_last, hunts, rows
from tests.simulation.verdict import Case, Verdict, hunt

SEEDS = 500
EASY = (
    "KeepsWhatConflicts",
    "LeasesBeforeTheFirstCommit",
    "VotesForShorterLogs",
    "SnapshotHoldsSpeculation",
    "RotatesWithoutSync",
    "WritesAheadOfFinalizing",
)
"""One mutant of each part of the code, or two, each of which is found by one of the first seeds."""
EASY_SEEDS = 25


def _first_caught(cases: Iterable[Case]) -> Verdict | None:
    found = map(hunt, cases)
    return next((verdict for verdict in found if verdict.violation), None)


@pytest.mark.parametrize("name", EASY)
def test_an_easy_mistake_is_noticed_at_once(name: str) -> None:
    found = _first_caught(Case(seed, mutant=name) for seed in range(EASY_SEEDS))
    assert found is not None
    assert found.is_caught, found


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in EASY])
def test_every_mistake_is_noticed(name: str) -> None:
    [task] = hunts([name], range(SEEDS), caught_last())
    found = _first_caught(task.cases)
    assert found is not None
    assert found.is_caught, found


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_changes_only_what_is_there(mutant: Mutant) -> None:
    """Else a method renamed in production would turn it into the unchanged code, and nobody would notice."""
    changed = [
        name
        for name, value in vars(mutant.mutation).items()
        if inspect.isfunction(value) or isinstance(value, property)
    ]
    original = mutant.original
    attributes = original.__init__.__code__.co_names
    assert changed
    assert [name for name in changed if not hasattr(original, name) and name not in attributes] == []
    assert mutant.undoes, "its docstring says which rule it breaks"


def test_the_committed_table_tells_of_every_mutant_and_all_are_caught() -> None:
    told = rows(MARKDOWN.read_text(encoding="utf-8"))
    assert [row[:2] for row in told] == [[name, mutant.undoes] for name, mutant in MUTANTS.items()]
    assert [row for row in told if row[2] == NOT_CAUGHT] == []
