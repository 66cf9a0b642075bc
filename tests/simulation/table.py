"""The mutation table: which mistake was put into the code, which checker met it first, and in which seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.simulation.mutants import MUTANTS
from tests.simulation.runner import Task, verdicts
from tests.simulation.verdict import Case, Verdict

MARKDOWN: Final = Path(__file__).with_name("MUTATIONS.md")
NOT_CAUGHT: Final = "NOT CAUGHT"
COLUMNS: Final = ("mutation", "what it undoes", "caught by", "seed")
PREFACE: Final = """\
# What the simulation's checkers are worth

Each row is the production code with one mistake put in, run on seeds {first} to {last} until one is red.
The faults and checkers were tuned on these very seeds, and mutants that none of them met were left out
(mutants.py names them): on other seeds some will take longer.
Written by `python -m tests.simulation --mutation-table --markdown`.
"""


def hunts(names: Iterable[str], seeds: range, replicas: int | None = None) -> Iterator[Task]:
    """Yield one task per mutant, so that its first red seed is the same with any number of workers."""
    for name in names:
        cases = tuple(Case(seed, replicas, name) for seed in seeds)
        yield Task(cases, hunts=True)


def first_red(names: Iterable[str], seeds: range, jobs: int) -> Iterator[Verdict]:
    """The first red verdict of each mutant, or its last green one, as they become known."""
    with contextlib.closing(verdicts(hunts(names, seeds), jobs)) as found:
        for verdict in found:
            if verdict.violation or verdict.case.seed == seeds[-1]:
                yield verdict


def row(verdict: Verdict) -> tuple[str, ...]:
    name = verdict.case.mutant
    caught = verdict.checker or NOT_CAUGHT
    return name, MUTANTS[name].undoes, caught, str(verdict.case.seed) if verdict.violation else "-"


def markdown(found: Iterable[Verdict], seeds: range) -> str:
    order = list(MUTANTS)
    rows = [row(verdict) for verdict in sorted(found, key=lambda verdict: order.index(verdict.case.mutant))]
    lines = [PREFACE.format(first=seeds[0], last=seeds[-1])]
    lines += [f"| {' | '.join(cells)} |" for cells in (COLUMNS, ("---",) * len(COLUMNS), *rows)]
    return "\n".join(lines) + "\n"
