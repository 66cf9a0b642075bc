"""Scenarios of `groupd swarm run` whose consumers bring a judge and a command of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.swarm.planning.scenario import BadScenario

ALWAYS_TAKEN: Final = frozenset({"scenario", "seed", "minutes", "seconds", "groups", "members", "summary"})
"""The parameters of `groupd swarm run` that every such scenario takes. The summary may come from the
environment: none is written."""


class Asked(NamedTuple):
    """What `groupd swarm run` was asked for; None: the scenario's own."""

    bootstrap: str | None
    seconds: float | None
    groups: int | None
    members: int | None
    """How many members all groups have together."""
    seed: int


class OwnScenario(NamedTuple):
    """One such scenario: what `groupd swarm list` says of it, and what runs it."""

    name: str
    about: str
    groups: int
    members: int
    """How many members a group has."""
    seconds: float
    run: Callable[[Asked], None]
    takes: frozenset[str] = ALWAYS_TAKEN
    """The parameters of `groupd swarm run` that mean something here."""

    def per_group(self, asked: Asked) -> tuple[int, int]:
        """Return how many groups there are to be, and how many members each of them has."""
        groups = self.groups if asked.groups is None else asked.groups
        return groups, self.members if asked.members is None else max(asked.members // groups, 1)


def find(scenario: str, known: Sequence[OwnScenario]) -> OwnScenario | None:
    """Return the scenario of a name, if it is one of these."""
    return next((each for each in known if each.name == scenario), None)


def check(own: OwnScenario, run: Callable[..., None], given: Mapping[str, Any]) -> None:
    """Raise BadScenario if `run` was given anything that means nothing here: nothing that was asked for is
    passed over."""
    for name, parameter in inspect.signature(run).parameters.items():
        if name not in own.takes and given[name] != parameter.default:
            flag = name.removeprefix("as_").replace("_", "-")
            raise BadScenario(
                f"{own.name} has a judge of its own and takes no --{flag}: see groupd swarm {own.name} --help"
            )
