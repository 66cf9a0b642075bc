"""The mutation table: which mistake was put into the code, which checker met it first, and in which seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
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

Each row is the production code with one mistake put in, run on the seed that caught it last and then on seeds
{first} to {last}, until one is red.
The faults and checkers were tuned on these very seeds, and mutants that none of them met were left out
(mutants.py names them): on other seeds some will take longer.
Written by `python -m tests.simulation --mutation-table --markdown`.
"""


def rows(text: str) -> list[list[str]]:
    """Return the cells of a written table, row by row."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return lines[2:]


def caught_last() -> dict[str, int]:
    """Return the seed of each mutant that the written table says was caught."""
    told = rows(MARKDOWN.read_text(encoding="utf-8"))
    return {name: int(seed) for name, _, _, seed in told if seed.isdecimal()}


def hunts(names: Iterable[str], seeds: range, known: Mapping[str, int]) -> Iterator[Task]:
    """Yield one task per mutant, so that the seed that catches it is the same with any number of workers.
    `known` has the seed to begin with: most changes leave it red, and some mutants are red on one seed of
    hundreds."""
    for name in names:
        order = [known.get(name, seeds[0])]
        order += [seed for seed in seeds if seed != order[0]]
        yield Task(tuple(Case(seed, None, name) for seed in order), hunts=True)


def first_red(tasks: Iterable[Task], jobs: int) -> Iterator[Verdict]:
    """The first red verdict of each mutant, or its last green one, as they become known."""
    asked = list(tasks)
    last = {task.cases[-1] for task in asked}
    with contextlib.closing(verdicts(asked, jobs)) as found:
        for verdict in found:
            if verdict.violation or verdict.case in last:
                yield verdict


def row(verdict: Verdict) -> tuple[str, ...]:
    name = verdict.case.mutant
    caught = verdict.checker or NOT_CAUGHT
    return name, MUTANTS[name].undoes, caught, str(verdict.case.seed) if verdict.violation else "-"


def markdown(found: Iterable[Verdict], seeds: range) -> str:
    order = list(MUTANTS)
    found_rows = [
        row(verdict) for verdict in sorted(found, key=lambda verdict: order.index(verdict.case.mutant))
    ]
    lines = [PREFACE.format(first=seeds[0], last=seeds[-1])]
    lines += [f"| {' | '.join(cells)} |" for cells in (COLUMNS, ("---",) * len(COLUMNS), *found_rows)]
    return "\n".join(lines) + "\n"
