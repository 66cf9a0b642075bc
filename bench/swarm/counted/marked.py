"""Finds what service was like during faults that somebody else caused. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.swarm.counted.figures import Figures
from bench.swarm.counted.gaps import Gap
from bench.swarm.counted.marks import Mark


class Marked(NamedTuple):
    """A mark in a run, on the record's clock, and what service was like in its time."""

    text: str
    began_us: int
    ended_us: int
    """The mark's own end, or the end of the time that counts to it."""
    is_open: bool
    """Whether the mark has no end of its own."""
    groups: int
    """How many groups had no coordinator for some time within the mark's time."""
    longest_us: int
    """The longest of these gaps, as far as they lie within it."""
    failed: int
    """How many requests were refused or lost."""
    members_lost: int
    is_outside: bool
    """Whether the mark lies before or after the run."""


def marked(marks: Sequence[Mark], figures: Figures) -> list[Marked]:
    """Find what happened in the time of each mark; the run has to say what time it was."""
    wall_us = figures.wall.wall_us
    assert wall_us is not None, "marks are told by the wall clock"
    found = []
    for place, mark in enumerate(marks):
        began_us = mark.began_unix_us - wall_us
        following = (other.began_unix_us - wall_us for other in marks[place + 1 :])
        next_us = next((at_us for at_us in following if at_us > began_us), max(figures.ended_us, began_us))
        ended_us = min(next_us, max(figures.ended_us, began_us))
        if mark.ended_unix_us is not None:
            ended_us = mark.ended_unix_us - wall_us
        found.append(_marked(mark, began_us, ended_us, figures))
    return found


def _marked(mark: Mark, began_us: int, ended_us: int, figures: Figures) -> Marked:
    hit = [gap for gap in figures.gaps if gap.began_us <= ended_us and gap.ended_us >= began_us]
    first, last = np.searchsorted(figures.failed_us, [began_us, ended_us + 1]).tolist()
    return Marked(
        mark.text,
        began_us,
        ended_us,
        mark.ended_unix_us is None,
        groups=len({gap.group_id for gap in hit}),
        longest_us=max((_within(gap, began_us, ended_us) for gap in hit), default=0),
        failed=last - first,
        members_lost=sum(began_us <= loss.at_us <= ended_us for loss in figures.losses),
        is_outside=ended_us < figures.began_us or began_us > figures.ended_us,
    )


def _within(gap: Gap, began_us: int, ended_us: int) -> int:
    return min(gap.ended_us, ended_us) - max(gap.began_us, began_us)
