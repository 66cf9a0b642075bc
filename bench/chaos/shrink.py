"""Finds the fewest faults of a failed run that still fail: each trial is a run of its own in its directory.

A run fails when a promise is broken or its target does not come back. One that fails by chance may pass by
chance: every list is tried several times before it is taken not to fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from bench.chaos import schedule_file
from bench.chaos.ddmin import Places, fewest
from bench.chaos.outcome import Outcome
from bench.chaos.schedule import Played, only
from bench.chaos.schedule_file import Schedule
from bench.chaos.state import State
from storage.history.judge.findings import BROKEN

PREFIX: Final = "shrink-"
RESULT: Final = "shrunk.json"

Carry = Callable[[State, Path], Outcome]
"""A function that carries a run out in a new directory and judges it. Raises KeyboardInterrupt."""
Say = Callable[[str], None]


class Found(NamedTuple):
    """The fewest faults that a search found."""

    faults: tuple[Played, ...]
    """The faults; empty: the run fails without any."""
    broke: str
    """What the last run of just these faults broke; empty: no run of them ever failed."""
    is_minimal: bool
    path: Path
    """The file of the schedule, if there are faults."""


class Shrinking:
    """The search for the fewest faults of a failed run that fail again."""

    def __init__(self, state: State, directory: Path, carry: Carry, say: Say) -> None:
        self._state = state
        self._directory = directory
        self._carry = carry
        self._say = say
        self._broke: dict[Places, str] = {}
        self._last_number = max(map(_number, directory.glob(f"{PREFIX}*")), default=0)

    def shrink(self, tries: int, until_s: float) -> Found:
        """Search. No list of faults is begun after `until_s` (monotonic). Ctrl-C keeps what was found so
        far."""
        whole = tuple(range(len(self._state.played)))
        smallest = whole
        is_minimal = False
        try:
            if self._fails(whole, tries):
                shrunk = fewest(
                    len(whole), lambda kept: self._fails(kept, tries), lambda: time.monotonic() < until_s
                )
                is_minimal = shrunk.is_minimal
                if len(shrunk.kept) == 1 and is_minimal:
                    self._fails((), tries)  # a swarm alone may be enough
        except KeyboardInterrupt:
            self._say("interrupted: the smallest list so far is kept")
        if self._broke:
            smallest = min(self._broke, key=len)
        return self._result(smallest, is_minimal)

    def _result(self, kept: Places, is_minimal: bool) -> Found:
        faults = tuple(only(self._state.played, kept))
        path = self._directory / RESULT
        broke = self._broke.get(kept, "")
        if faults and broke:
            state = self._state
            schedule_file.write(path, Schedule(scenario=state.scenario, seed=state.seed, faults=faults))
        return Found(faults, broke, is_minimal, path)

    def _fails(self, kept: Places, tries: int) -> bool:
        """Whether a run of these faults fails, in so many tries at most."""
        faults = only(self._state.played, kept)
        for _ in range(tries):
            self._last_number += 1
            here = self._directory / f"{PREFIX}{self._last_number}"
            here.mkdir()
            outcome = self._carry(self._again(faults), here)
            names = ", ".join(fault.kind for fault in faults) or "a swarm alone"
            told = (
                f"{here.name}: {len(faults)} of {len(self._state.played)} faults ({names}): {outcome.status}"
            )
            self._say(f"{told}, {outcome.verdict.because}")
            if outcome.status == BROKEN:
                self._broke[kept] = outcome.verdict.because
                return True
        return False

    def _again(self, faults: list[Played]) -> State:
        """The state of a new run with these faults, on the same target."""
        state = self._state
        return State(
            scenario=state.scenario,
            seed=state.seed,
            data_dir=state.data_dir,
            target=state.target,
            brokers=state.brokers,
            kafka_home=state.kafka_home,
            fixed=faults,
            version=state.version,
        )


def _number(directory: Path) -> int:
    number = directory.name.removeprefix(PREFIX)
    return int(number) if number.isdigit() else 0
