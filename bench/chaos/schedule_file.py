"""A list of faults in a file: what a run played, so that it can be played again, on another target, too."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.chaos.scenario import Scenario
from bench.chaos.schedule import Played
from bench.swarm.planning import scenario_errors
from bench.swarm.planning.scenario_errors import BadScenario

FILE_NAME: Final = "schedule.json"


class Schedule(BaseModel):
    """What a schedule's file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenario: Scenario
    """Says which swarm and tier are meant, and how long they settle and recover; the faults are those of this
    file."""
    seed: int
    """The seed of the swarm."""
    faults: tuple[Played, ...]


def write(path: Path, schedule: Schedule) -> None:
    """Write a file for `read` and for people who want to change it by hand."""
    path.write_text(schedule.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read(path: Path, kinds: Collection[str]) -> Schedule:
    """Read a file. `kinds` are the faults that there are. Raises BadScenario."""
    try:
        schedule = Schedule.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadScenario(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadScenario(f"{path}: is no schedule: {where or 'JSON'}: {first['msg']}") from None
    if not schedule.faults:
        raise BadScenario(f"{path}: faults: the list is empty; a run without a fault would show nothing")
    for number, fault in enumerate(schedule.faults):
        if fault.kind not in kinds:
            hint = scenario_errors.hint(fault.kind, sorted(kinds))
            raise BadScenario(f"{path}: faults.{number}.kind: {fault.kind}: there is no such fault; {hint}")
    rising = sorted(schedule.faults, key=lambda fault: fault.at_s)
    return schedule.model_copy(update={"faults": tuple(rising)})
