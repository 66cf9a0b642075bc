"""How far a chaos run has come: written after every fault, so that it can go on where it was stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from bench.chaos.scenario import Scenario

FILE_NAME: Final = "chaos.json"


class NoRun(Exception):
    """The directory holds no chaos run; says which."""


class State(BaseModel):
    """One run, of one part or several."""

    scenario: Scenario
    seed: int
    data_dir: Path | None = None
    """Of a running tier; None: each part has a throw-away tier of its own."""
    version: str = ""
    """Of groupd."""
    steps: int = 0
    """Of the schedule that were met."""
    killed: int = 0
    """Processes."""
    lasted_s: float = 0.0
    """Of all parts, as far as their swarms ran."""
    parts: int = 0
    """Begun so far, each in a directory of its own."""
    words: list[str] = []
    """Why it could not go on."""
    unmended: list[str] = []
    """How the tier did not come back after a fault."""
    is_finished: bool = False

    def part(self, directory: Path, number: int) -> Path:
        """The directory of a part, from 1 on: a swarm's run with `faults.calls` in it."""
        return directory / f"part-{number}"

    def done(self) -> tuple[float, float]:
        """How much of the run is done, and how much there is: seconds, or kills."""
        if self.scenario.kills is not None:
            return self.killed, self.scenario.kills
        return self.lasted_s, (self.scenario.minutes or 0) * 60

    def write(self, directory: Path) -> None:
        """In one step: whoever reads meets the state before or after."""
        fresh = directory / f"{FILE_NAME}.new"
        fresh.write_text(self.model_dump_json(indent=2), encoding="utf-8")
        os.replace(fresh, directory / FILE_NAME)


def read(directory: Path) -> State:
    """Of a run that was begun in `directory`. Raises NoRun."""
    try:
        return State.model_validate_json((directory / FILE_NAME).read_bytes())
    except (OSError, ValidationError) as error:
        raise NoRun(f"{directory} holds no chaos run: {_first_line(error)}") from None


def _first_line(error: Any) -> str:
    return str(error).splitlines()[0]
