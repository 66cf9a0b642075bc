"""A fault on a tier under load, from its beginning until nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from bench.chaos.faults import KINDS
from bench.chaos.targets.actor import Actor
from bench.chaos.targets.fault import SAFE, Injury
from bench.chaos.targets.site import Site
from bench.chaos.targets.target import until
from tests.chaos.load import Load

EFFECT_TIMEOUT_S = 90.0
"""Deadline for a fault's effect: on a busy machine all processes of a tier take a minute to start."""


class Scene(NamedTuple):
    """A fault while it lasts: the tier, its load, its actors before the fault, and what the fault did."""

    site: Site
    load: Load
    before: dict[str, Actor]
    injury: Injury

    @property
    def hit(self) -> list[Actor]:
        """Return the actors that the fault names as its target, as they were before it."""
        names = self.injury.target.replace(" (leader)", "").split(", ")
        return [self.before[name] for name in names]

    def now(self) -> dict[str, Actor]:
        return {actor.name: actor for actor in self.site.actors()}

    def until(self, holds: Callable[[], object], what: str) -> None:
        until(holds, f"{what} ({self.injury.target}); {self.site.complaints()}", EFFECT_TIMEOUT_S)


def suffer(site: Site, load: Load, name: str, effect: Callable[[Scene], None]) -> None:
    kind = KINDS[name]
    if missing := kind.needs - site.has:
        pytest.skip(f"there is no {', '.join(missing)} here")
    site.wait_until_whole()
    load.progress()
    before = {actor.name: actor for actor in site.actors()}
    injury = kind.begin(site, Random(name), 1.0)
    try:
        effect(Scene(site, load, before, injury))
        if kind.reach == SAFE:
            load.progress()
    finally:
        injury.undo()
    site.wait_until_whole()
    load.progress()
    load.check()
