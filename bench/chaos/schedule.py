"""Which fault comes when, and for how long: decided by scenario and seed alone.

PURE. Faults come one at a time, each followed by time to breathe: so there are never two of them that take
a majority away, and what clients felt has one cause. They come in rounds: every kind as often as the scenario
says, in a new order each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from bench.chaos.scenario import Scenario
from bench.chaos.targets.fault import OUTAGE

LONGER_AFTER_AN_OUTAGE: Final = 1.5
"""How many times longer the groups can breathe after an outage: all members have to come back."""


class Played(BaseModel):
    """A fault that came, as it can be played again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    at_s: float = Field(ge=0)
    """The time since the run's beginning; the fault comes later if the target is not whole by then."""
    for_s: float = Field(ge=0)
    seed: int
    """The seed of the fault's own choices."""
    target: str = ""
    """What the fault hit, for people who read the file; a replay hits whatever is in that place."""


class Step(NamedTuple):
    """One fault of a schedule."""

    number: int
    """The fault's place in the whole schedule, from 0 on."""
    kinds: tuple[str, ...]
    """The kind of fault that is to come, then the kinds that come instead if it finds nothing to hit."""
    for_s: float
    breath_s: float
    """How long the groups can breathe after the fault."""
    seed: int
    """The seed of the fault's own choices."""
    at_s: float | None = None
    """The time since the run's beginning, if the list of faults is a fixed one; None: the fault comes when
    its turn is."""


def steps(scenario: Scenario, reaches: Mapping[str, str], seed: int) -> Iterator[Step]:
    """All faults of a run, without end. `reaches` are the kinds that the target can suffer, each with its
    reach."""
    frequencies = scenario.faults or dict.fromkeys(reaches, 1)
    one_round = [kind for kind in sorted(reaches) for _ in range(frequencies.get(kind, 0))]
    if not one_round:
        return
    chance = Random(f"{scenario.name} {seed}")
    number = 0
    while True:
        order = chance.sample(one_round, len(one_round))
        for kind in order:
            others = sorted(set(one_round) - {kind})
            breath_s = chance.uniform(*scenario.breath_s)
            yield Step(
                number,
                (kind, *chance.sample(others, len(others))),
                for_s=round(chance.uniform(*scenario.fault_s), 3),
                breath_s=round(breath_s * (LONGER_AFTER_AN_OUTAGE if reaches[kind] == OUTAGE else 1), 3),
                seed=chance.getrandbits(32),
            )
            number += 1


def fixed(faults: Sequence[Played]) -> Iterator[Step]:
    """The steps that play a list of faults again."""
    for number, fault in enumerate(faults):
        yield Step(number, (fault.kind,), fault.for_s, 0.0, fault.seed, fault.at_s)


def only(faults: Sequence[Played], kept: Sequence[int]) -> list[Played]:
    """The faults in these rising places, each as long after the one before as it was. No time is spent on
    those that are left out."""
    found: list[Played] = []
    at_s = 0.0
    for place in kept:
        at_s += faults[place].at_s - (faults[place - 1].at_s if place else 0.0)
        found.append(faults[place].model_copy(update={"at_s": round(at_s, 3)}))
    return found
