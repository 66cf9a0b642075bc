"""Decides which load is tried next, and which is the largest that was kept: loads double, then what is left
is halved.

PURE. A load that failed is tried once more before it is believed, because a busy machine fails any load now
and then. A load at which the judge found a broken promise is believed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

GROWTH: Final = 2
"""The factor from one load to the next while all are kept."""
TRIES: Final = 2
"""How often a load may be tried that fails."""


class Tried(NamedTuple):
    """The result of one probe."""

    load: int
    is_kept: bool
    because: str = ""
    """Why the load was not kept."""
    is_certain: bool = False
    """Whether a failure needs no second try, because a promise was broken."""


class Range(NamedTuple):
    """The loads among which the answer is searched."""

    least: int
    most: int
    tolerance: float = 0.1
    """The share by which the answer may be too small."""


class Found(NamedTuple):
    """The answer, as far as it is known."""

    kept: Tried | None
    """The largest load that was kept; None: not even the least was."""
    failed: Tried | None
    """The smallest load that failed for certain or in every try; None: none did."""


def next_load(
    wanted: Range, tried: Sequence[Tried], nearest: Callable[[int], int] = lambda load: load
) -> int | None:
    """The load to try next; None: the answer is known. `nearest` gives the possible load next to a wanted
    one."""
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
    """What is known after these probes."""
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
