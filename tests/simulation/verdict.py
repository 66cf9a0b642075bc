"""One run looked at: is it red, who said so, and how little of it is enough to show it again."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.mutants import MUTANTS
from tests.simulation.run import FAULTS_S, PRODUCTION, run
from tests.simulation.trace import Recorder, Trace, tail
from tests.simulation.world import Violation

SLIP: Final = "a slip in the mutant"
"""The checker of a run in which the mutant's own code failed: it proves nothing about the checkers."""
_UNTIL_STEP_S: Final = 0.1
"""The last fault that matters is found to this precision."""


class Case(NamedTuple):
    """What a run depends on: everything that happens in it follows from these."""

    seed: int
    replicas: int | None = None
    """The number of replicas; with None the seed decides."""
    mutant: str = ""
    """The name of the mutant; "" stands for the production code."""
    until: float | None = None
    """No fault begins after this simulated time in seconds; None: the whole schedule."""


class Verdict(NamedTuple):
    case: Case
    violation: str = ""
    """What went wrong; it is "" if the run is green."""
    checker: str = ""
    """The checker of the world that found it, or the error by which the code itself refused to go on."""
    tail: tuple[str, ...] = ()

    @property
    def is_caught(self) -> bool:
        """A mutant was met by a checker or by the code's own assertion, not by a slip of its own."""
        return bool(self.violation) and self.checker != SLIP


def examine(case: Case, trace: Trace | None = None) -> Verdict:
    code = MUTANTS[case.mutant].code if case.mutant else PRODUCTION
    try:
        run(case.seed, replicas=case.replicas, code=code, trace=trace, until=case.until)
    except Exception as error:
        causes = list(_causes(error))
        for cause in causes:
            if isinstance(cause, Violation):  # Raft wraps what is raised while it applies
                return Verdict(case, str(cause), str(cause).partition(":")[0])
        checker = SLIP if any(map(is_slip, causes)) else f"the code's own {type(error).__name__}"
        return Verdict(case, f"{type(error).__name__}: {error}", checker)
    return Verdict(case)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """A remembered error that is raised again can become its own context: each comes once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def hunt(case: Case) -> Verdict:
    """Examine a mutant. A seed on which the unchanged code is red too says nothing about it: green."""
    found = examine(case)
    if found.is_caught and examine(case._replace(mutant="")).violation:
        return Verdict(case)
    return found


def is_slip(error: BaseException) -> bool:
    """Whether it was raised in a mutant's own lines, as a name that has changed under it would be."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).name.startswith("mutants")


def explain(red: Verdict) -> Verdict:
    """The same violation with as few faults as cutting the schedule's end allows, and the tail of its trace.
    Raises AssertionError if the case is green now: then something in the world is not decided by the seed."""
    case = _shortened(red.case)
    recorder = Recorder()
    again = examine(case, recorder)
    assert again.violation, (
        f"seed {case.seed} was red and is green when run again: the world is not deterministic"
    )
    lines = tail(recorder.lines, again.violation)
    return again._replace(tail=tuple(map(str, lines)))


def _shortened(case: Case) -> Case:
    """Bisection: a later end of the faults need not be red too, so the result is small, not the least."""
    if case.until is not None:
        return case
    green, red = 0.0, FAULTS_S
    while red - green > _UNTIL_STEP_S:
        until = (green + red) / 2
        if examine(case._replace(until=until)).violation:
            red = until
        else:
            green = until
    return case._replace(until=red) if examine(case._replace(until=red)).violation else case
