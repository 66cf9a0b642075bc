"""Scenarios of `groupd swarm run` whose consumers bring a judge and a command of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from bench.swarm.planning.scenario import BadScenario

TAKES: Final = frozenset(
    {"scenario", "bootstrap", "seed", "minutes", "seconds", "groups", "members", "summary"}
)
"""The parameters of `groupd swarm run` that mean something to such a scenario. The summary may come from the
environment: none is written."""


class Asked(NamedTuple):
    """What `groupd swarm run` was asked for; None: the scenario's own."""

    bootstrap: str | None
    seconds: float | None
    groups: int | None
    members: int | None
    """How many members all groups have together."""
    seed: int


class Defaults(Protocol):
    """What a scenario does unless it is asked for something else."""

    @property
    def groups(self) -> int: ...
    @property
    def members(self) -> int:
        """Return how many members a group has."""

    @property
    def partitions(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class OwnScenario(NamedTuple):
    """One such scenario: what `groupd swarm list` says of it, and its own command."""

    name: str
    about: str
    defaults: Defaults
    command: Callable[[str | None, float, int, int, int, float, int], None]
    """It takes bootstrap, seconds, groups, members of a group, partitions, seconds between kills, seed."""

    def run(self, asked: Asked) -> None:
        defaults = self.defaults
        groups = defaults.groups if asked.groups is None else asked.groups
        members = defaults.members if asked.members is None else max(asked.members // groups, 1)
        seconds = defaults.seconds if asked.seconds is None else asked.seconds
        self.command(asked.bootstrap, seconds, groups, members, defaults.partitions, 0.0, asked.seed)


def find(scenario: str, known: Sequence[OwnScenario]) -> OwnScenario | None:
    """Return the scenario of a name, if it is one of these."""
    return next((each for each in known if each.name == scenario), None)


def check(own: OwnScenario, run: Callable[..., None], given: Mapping[str, Any]) -> None:
    """Raise BadScenario if `run` was given anything that means nothing here: nothing that was asked for is
    passed over."""
    for name, parameter in inspect.signature(run).parameters.items():
        if name not in TAKES and given[name] != parameter.default:
            flag = name.removeprefix("as_").replace("_", "-")
            raise BadScenario(
                f"{own.name} has a judge of its own and takes no --{flag}: see groupd swarm {own.name} --help"
            )
