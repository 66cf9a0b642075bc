"""Whether a mistake that was made on purpose is noticed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.simulation.verdict import SLIP, is_slip

MUTANT_SEEDS = 100
Mutant = Callable[[], AbstractContextManager[object]]
"""What makes a mistake in the code as long as its context lasts."""


def check_noticed(run: Callable[[int], object], first: int = 0) -> None:
    """Check that one of the first seeds ends with an error that the mistake explains. `run` plays a seed with
    the mistake in it; `first` is the seed that found it last, which is played before the others."""
    seeds = (first, *range(MUTANT_SEEDS))
    found = next((error for seed in seeds if (error := _error(run, seed))), None)
    assert found is not None
    assert not is_slip(found), SLIP


def check_mutant_noticed(mutant: Mutant, run: Callable[[int], object], first: int = 0) -> None:
    """Check that a mistake that a context puts into the code is noticed, as `check_noticed` does."""

    def played(seed: int) -> None:
        with mutant():
            run(seed)

    assert mutant.__doc__, "its docstring says which rule it breaks"
    check_noticed(played, first)


def _error(run: Callable[[int], object], seed: int) -> Exception | None:
    try:
        run(seed)
    except Exception as error:
        return error
    return None
