"""What a fault is: something that is done to a target, and undone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, Protocol

from bench.chaos.targets.target import Target

SAFE: Final = "minority"
"""The reach of a fault that leaves every Raft group a majority: service must go on."""
OUTAGE: Final = "majority"
"""The reach of a fault that takes a majority away for a while: service stops, but nothing acknowledged is
lost."""


class Injury(NamedTuple):
    """A fault that has begun."""

    target: str
    """What was hit, such as "partition-3-1 (leader)"."""
    undo: Callable[[], int | None]
    """Ends the fault: thaws, heals or starts anew. It may take long, and raises if the tier cannot be mended.
    Returns how many processes were ended after the beginning, if any."""
    silences: bool = False
    """Whether connections may stay open without an answer during the fault."""
    detail: str = ""
    killed: int = 0
    """How many processes the fault ended when it began: these, and what `undo` returns, are what `--kills`
    counts."""


class FaultKind(Protocol):
    """One kind of fault, without a state of its own. `name` is what scenarios and reports say
    ("kill-leader")."""

    name: str
    about: str
    """A sentence about the fault for `groupd chaos list`."""
    reach: str
    """SAFE or OUTAGE."""
    needs: frozenset[str]
    """What the target must have: "replicas" (a tier of ours: its copies of partitions are processes of their
    own), "own" (a throw-away tier), "ray-nodes", "machines", "proxy", "injection" (fault file), "tmpfs",
    "upstream" (Kafka brokers of its own that the tier stands in front of)."""

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury: ...
