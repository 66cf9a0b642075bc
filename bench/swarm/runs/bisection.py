"""Which load is tried next, and which is the largest that was kept: doubling, then halving what is left.

PURE: what was tried in, the next load out. A load that failed is tried once more before it is believed, for a
busy machine fails any load now and then; one at which the judge found a broken promise is believed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

GROWTH: Final = 2
"""The factor from one load to the next while all are kept."""
TRIES: Final = 2
"""How often a load may be tried that fails."""


class Tried(NamedTuple):
    """What became of one probe."""

    load: int
    is_kept: bool
    because: str = ""
    """Why it was not kept."""
    is_certain: bool = False
    """A failure that needs no second try: a promise was broken."""


class Range(NamedTuple):
    """What is searched."""

    least: int
    most: int
    tolerance: float = 0.1
    """The answer may be so much too small, as a share of it."""


class Found(NamedTuple):
    """The answer, so far as it is known."""

    kept: Tried | None
    """The largest load that was kept; None: not even the least."""
    failed: Tried | None
    """The smallest load that failed for certain or in every try; None: none did."""


def next_load(
    wanted: Range, tried: Sequence[Tried], nearest: Callable[[int], int] = lambda load: load
) -> int | None:
    """None: the answer is known. `nearest`: the load that there can be, next to one that is wished for."""
    if tried and not tried[-1].is_kept and not _has_failed(tried[-1].load, tried):
        return tried[-1].load
    kept, failed = found(tried)
    least, most = nearest(wanted.least), nearest(wanted.most)
    if kept is None:
        return least if failed is None else None
    if failed is None:
        more = min(most, nearest(kept.load * GROWTH))
        return more if more > kept.load else None
    if failed.load - kept.load <= wanted.tolerance * kept.load:
        return None
    middle = nearest((kept.load + failed.load) // 2)
    return middle if kept.load < middle < failed.load else None


def found(tried: Sequence[Tried]) -> Found:
    """What is known after these."""
    kept = [each for each in tried if each.is_kept]
    failed = [each for each in tried if not each.is_kept and _has_failed(each.load, tried)]
    return Found(
        max(kept, key=lambda each: each.load, default=None),
        min(reversed(failed), key=lambda each: each.load, default=None),
    )


def _has_failed(load: int, tried: Sequence[Tried]) -> bool:
    of_load = [each for each in tried if each.load == load]
    if any(each.is_kept for each in of_load):
        return False
    return len(of_load) >= TRIES or any(each.is_certain for each in of_load)
