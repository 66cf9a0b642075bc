"""One operation of a sequence, and the draws that every kind of sequence shares."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SLOTS = 3


class Operation(NamedTuple):
    """`what` is a function of `asking`; `args` say how it strays from what a right client would send."""

    what: str
    slot: int
    args: Mapping[str, Any] = {}


Draw = Callable[[random.Random], Operation]


def any_slot(rng: random.Random) -> int:
    return rng.randrange(SLOTS)
