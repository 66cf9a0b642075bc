"""What a chaos scenario's file says: which swarm, which faults how often, for how long.

about = "Every kind of fault, one after the other."
swarm = "chaos"            # a scenario of `groupd swarm`, or a file beside this one
minutes = 5                # of the whole run; or kills = 1000; with both it ends when both are reached
[faults]                   # how often in each round; without this table each kind once
kill-leader = 2
others = 1                 # each kind that is not named here; without it: none
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from bench.swarm.planning import scenario_errors, toml_lines
from bench.swarm.planning.scenario_errors import BadScenario

SCENARIOS: Final = Path(__file__).with_name("scenarios")
SUFFIX: Final = ".toml"
OTHERS: Final = "others"


def _span(said: Any) -> Any:
    match said:
        case [int() | float() as least, int() | float() as most] if 0 <= least <= most:
            return said
    raise ValueError(f"{said!r} is not allowed: two numbers of seconds are expected, as [1, 4]: from, to")


Span = Annotated[tuple[float, float], BeforeValidator(_span)]
"""A range of seconds, from the least to the most."""


class Scenario(BaseModel):
    """What a scenario's file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    swarm: str
    minutes: float | None = Field(default=None, gt=0)
    """How long the whole run lasts, the calm before and after the faults included."""
    kills: int | None = Field(default=None, gt=0)
    """How many processes are to be killed, however long that takes; with `minutes`, at least so many."""
    settle_s: float = Field(default=15, ge=0)
    """How long after the swarm's start the first fault comes."""
    fault_s: Span = (1, 4)
    """How long a fault lasts that can be undone."""
    breath_s: Span = (4, 7)
    """How long the groups can breathe between the end of a fault and the next one."""
    recovery_s: float = Field(default=25, ge=0)
    """How long the swarm goes on after the last fault: all groups have to be stable by its end."""
    part_minutes: float = Field(default=30, gt=0)
    """The longest part; a longer run goes on with a new swarm, because the judge reads one part's history at
    a time."""
    ray_nodes: bool = False
    """Each node of a throw-away tier is in a Ray node of its own."""
    in_front: bool = False
    """The throw-away tier stands in front of Kafka, which is started for it, and takes its groups over."""
    machines: int = Field(default=0, ge=0, le=5)
    """How many machines of its own a throw-away tier lives on, one node each; 0: it lives on this one."""
    tier: tuple[str, ...] = ()
    """The flags of `groupd up` for a throw-away tier."""
    faults: dict[str, Annotated[int, Field(ge=0)]] | None = None
    """How often each kind of fault comes in a round; None: each kind that there is comes once."""

    @model_validator(mode="after")
    def _ends(self) -> Scenario:
        if self.minutes is None and self.kills is None:
            raise ValueError("minutes or kills is to be given, or both")
        if self.faults is not None and not any(self.faults.values()):
            raise ValueError("faults: no kind is to be met")
        return self

    @property
    def least_s(self) -> float:
        """How many seconds the run lasts at least."""
        return (self.minutes or 0) * 60


def names() -> list[str]:
    """The names of the scenarios that come with groupd."""
    return sorted(path.stem for path in SCENARIOS.glob(f"*{SUFFIX}"))


def load(name_or_path: str, kinds: Collection[str]) -> Scenario:
    """Load a scenario that comes with groupd, or a file's. `kinds` are the faults that there are. Raises
    BadScenario."""
    path = Path(name_or_path)
    if path.suffix != SUFFIX and len(path.parts) == 1:
        if name_or_path not in names():
            hint = scenario_errors.hint(name_or_path, names())
            raise BadScenario(f"{name_or_path}: there is no such scenario; {hint}, or a {SUFFIX} file")
        path = SCENARIOS / f"{name_or_path}{SUFFIX}"
    try:
        scenario = parse(path.read_text(encoding="utf-8"), str(path), kinds)
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    beside = path.with_name(scenario.swarm)
    return scenario.model_copy(update={"swarm": str(beside)}) if beside.is_file() else scenario


def parse(text: str, file: str, kinds: Collection[str]) -> Scenario:
    """Read a file's text. Raises BadScenario."""
    try:
        said = tomllib.loads(text)
        scenario = Scenario.model_validate({"name": Path(file).stem, **said})
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(scenario_errors.no_toml(file, str(error))) from None
    except ValidationError as error:
        raise BadScenario(scenario_errors.words(file, text, said, error, {(): Scenario})) from None
    if scenario.faults is None:
        return scenario
    allowed = [OTHERS, *sorted(kinds)]
    for kind in scenario.faults:
        if kind not in allowed:
            line = toml_lines.line_of(toml_lines.lines(text), ("faults", kind))
            hint = scenario_errors.hint(kind, allowed)
            raise BadScenario(f"{file}:{line}: faults.{kind}: there is no such fault; {hint}")
    return scenario.model_copy(update={"faults": _spelled_out(scenario.faults, kinds)})


def _spelled_out(faults: dict[str, int], kinds: Collection[str]) -> dict[str, int]:
    named = {kind: count for kind, count in faults.items() if kind != OTHERS}
    return dict.fromkeys(kinds, faults.get(OTHERS, 0)) | named
