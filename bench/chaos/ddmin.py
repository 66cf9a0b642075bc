"""Delta debugging: the fewest of some things with which something still fails (Zeller's ddmin).

PURE. Halves are tried first, then what is left without each part of an ever finer division: a single cause
among n things is found in about 2 log2(n) trials, and nothing of what remains can be left out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

Places = tuple[int, ...]


class Shrunk(NamedTuple):
    """What a search has left of the things."""

    kept: Places
    is_minimal: bool
    """Whether no run failed without any one of them; the search may have been stopped before it knew that."""


def fewest(
    count: int, fails: Callable[[Places], bool], may_go_on: Callable[[], bool] = lambda: True
) -> Shrunk:
    """Find the fewest of `count` things that still fail together. `fails` is asked with rising places of
    some of them, never of none and never twice of the same; `may_go_on` is asked before each time."""
    kept, parts = tuple(range(count)), 2
    asked: set[Places] = {kept}
    while len(kept) > 1:
        for some in _candidates(kept, parts):
            if some in asked:
                continue
            if not may_go_on():
                return Shrunk(kept, False)
            asked.add(some)
            if fails(some):
                is_rest = len(some) > -(-len(kept) // parts)
                kept, parts = some, max(parts - 1, 2) if is_rest else 2
                break
        else:
            if parts >= len(kept):
                break
            parts = min(2 * parts, len(kept))
    return Shrunk(kept, True)


def _candidates(kept: Places, parts: int) -> list[Places]:
    """The next subsets to try: each part alone, then all things without it."""
    alone = _divided(kept, parts)
    return [*alone, *(tuple(place for place in kept if place not in part) for part in alone)]


def _divided(kept: Sequence[int], parts: int) -> list[Places]:
    edges = [len(kept) * number // parts for number in range(parts + 1)]
    return [tuple(kept[start:end]) for start, end in pairwise(edges) if end > start]
