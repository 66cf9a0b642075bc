"""What a fault is: something that is done to a target, and undone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, Protocol

from bench.chaos.targets.target import Target

SAFE: Final = "minority"
"""Leaves every Raft group a majority: service must go on."""
OUTAGE: Final = "majority"
"""Takes a majority away for a while: service stops, nothing acknowledged is lost."""


class Injury(NamedTuple):
    """A fault that has begun."""

    target: str
    """Who was hit, such as "partition-3-1 (leader)"."""
    undo: Callable[[], int | None]
    """Ends it: thaws, heals, starts anew. May take long; raises if the tier cannot be mended. Returns how
    many processes were ended after the beginning, if any."""
    silences: bool = False
    """While it lasts connections may stay open without an answer."""
    detail: str = ""
    killed: int = 0
    """Processes that it ended when it began: these, and what `undo` returns, are what `--kills` counts."""


class FaultKind(Protocol):
    """One kind; stateless. `name` is what scenarios and reports say ("kill-leader")."""

    name: str
    about: str
    """One sentence for `groupd chaos list`."""
    reach: str
    """SAFE or OUTAGE."""
    needs: frozenset[str]
    """What the target must have: "replicas" (a tier of ours: its copies of partitions are processes of their
    own), "own" (a throw-away tier), "ray-nodes", "proxy", "injection" (fault file), "tmpfs"."""

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury: ...
