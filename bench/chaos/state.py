"""How far a chaos run has come: written after every fault, so that it can go on where it was stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError

from bench.chaos.scenario import Scenario
from bench.chaos.schedule import Played

FILE_NAME: Final = "chaos.json"
TIER: Final = "tier"
KAFKA: Final = "kafka"
MENDING_S: Final = 60.0
"""How much longer a swarm is planned to last for each fault of a fixed list; it ends when the list does."""


class NoRun(Exception):
    """The directory holds no chaos run; the text names it."""


class State(BaseModel):
    """A run of one part or several."""

    scenario: Scenario
    seed: int
    data_dir: Path | None = None
    """The data directory of a running tier; None: each part has a throw-away tier of its own."""
    target: Literal["tier", "kafka"] = TIER
    """What is attacked."""
    brokers: int = 3
    """How many brokers Kafka has."""
    kafka_home: Path | None = None
    """Where Kafka is installed; None: its jars are fetched."""
    fixed: list[Played] | None = None
    """The faults to play; None: those of the scenario, by chance."""
    version: str = ""
    """The version of groupd."""
    software: str = ""
    """The name and version of what was attacked."""
    kinds: list[str] = []
    """The kinds of faults that are to come: those that the target can suffer."""
    left_out: list[str] = []
    """The kinds of faults that the target cannot suffer."""
    played: list[Played] = []
    """The faults that came."""
    missed: list[str] = []
    """The faults of a fixed list that found nothing to hit."""
    steps: int = 0
    """How many steps of the schedule were met."""
    killed: int = 0
    """How many processes were killed."""
    killed_by: dict[str, int] = {}
    """How many processes were killed, by kind of fault."""
    lasted_s: float = 0.0
    """How long the swarms of all parts ran."""
    parts: int = 0
    """How many parts were begun so far, each in a directory of its own."""
    words: list[str] = []
    """Why the run could not go on."""
    unmended: list[str] = []
    """How the tier did not come back after a fault."""
    is_finished: bool = False

    def part(self, directory: Path, number: int) -> Path:
        """The directory of a part, from 1 on: a swarm's run with `faults.calls` in it."""
        return directory / f"part-{number}"

    def count(self, kind: str, killed: int) -> None:
        """Count processes that were killed by a fault of this kind."""
        if killed:
            self.killed += killed
            self.killed_by[kind] = self.killed_by.get(kind, 0) + killed

    def is_done(self, ahead_s: float = 0.0) -> bool:
        """Whether all kills are done, and all minutes are over when `ahead_s` more have passed; of a fixed
        list, whether all faults came."""
        if self.fixed is not None:
            return self.parts > 0 and self.steps >= len(self.fixed)
        return self.killed >= (self.scenario.kills or 0) and self.lasted_s + ahead_s >= self.scenario.least_s

    @property
    def rest_s(self) -> float:
        """How many seconds the rest of a fixed list takes at most."""
        assert self.fixed is not None, "the list is a fixed one"
        rest = self.fixed[self.steps :]
        needed_s = (
            rest[-1].at_s - self.lasted_s + sum(fault.for_s + MENDING_S for fault in rest) if rest else 0
        )
        return max(needed_s, self.scenario.settle_s) + self.scenario.recovery_s

    @property
    def whom(self) -> str:
        """What is attacked, in words."""
        return "Kafka" if self.target == KAFKA else "the tier"

    @property
    def share(self) -> float:
        """How much of the run is done, from 0 to 1: of its kills or its minutes, whichever are further
        behind."""
        if self.fixed is not None:
            return self.steps / max(1, len(self.fixed))
        kills, least_s = self.scenario.kills, self.scenario.least_s
        of_kills = self.killed / kills if kills else 1.0
        of_time = self.lasted_s / least_s if least_s else 1.0
        return min(of_kills, of_time, 1.0)

    def write(self, directory: Path) -> None:
        """Write the file in one step: a reader meets the state before or after."""
        fresh = directory / f"{FILE_NAME}.new"
        fresh.write_text(self.model_dump_json(indent=2), encoding="utf-8")
        os.replace(fresh, directory / FILE_NAME)


def read(directory: Path) -> State:
    """Read the state of a run that was begun in `directory`. Raises NoRun."""
    try:
        return State.model_validate_json((directory / FILE_NAME).read_bytes())
    except (OSError, ValidationError) as error:
        raise NoRun(f"{directory} holds no chaos run: {_first_line(error)}") from None


def _first_line(error: Any) -> str:
    return str(error).splitlines()[0]
