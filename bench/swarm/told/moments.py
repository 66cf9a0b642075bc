"""Makes the parts of a run's page that are compared with CI and logs: thresholds, marks, and times without
coordinator. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.swarm.counted.figures import Figures
from bench.swarm.counted.marked import Marked
from bench.swarm.counted.wall import Wall
from bench.swarm.planning.thresholds import Checked
from bench.swarm.told.charts import Band
from bench.swarm.told.page import Section, duration, note, number, table

GAPS_MAX: Final = 20
MARK_CHARACTERS: Final = 32
"""How many characters of a mark a plot's legend has."""


def sections(checked: Sequence[Checked], found: Sequence[Marked], figures: Figures) -> Iterator[Section]:
    """The sections that there is something for, in the order of the page."""
    if checked:
        rows = [(each.text, each.status, each.because) for each in checked]
        yield Section("Thresholds", table(("threshold", "status", "because"), rows, text=(0, 2)))
    if found:
        yield Section("Marks", _marks(found, figures.wall))
    if figures.gaps:
        yield Section("Longest times without coordinator", _gaps(figures))


def lines(found: Sequence[Marked], wall: Wall) -> Iterator[str]:
    """The lines about marks for a terminal."""
    for mark in found:
        yield f"mark {wall.tell(mark.began_us)} {mark.text}: {_what(mark)}"


def plain(found: Sequence[Marked], figures: Figures) -> list[dict[str, Any]]:
    """Return it as plain values for JSON."""
    return [
        {
            **mark._asdict(),
            "began_s": (mark.began_us - figures.began_us) / 1e6,
            "began_at": figures.wall.iso(mark.began_us),
            "ended_at": figures.wall.iso(mark.ended_us),
        }
        for mark in found
    ]


def bands(found: Sequence[Marked], figures: Figures) -> list[Band]:
    """The marks as bands behind the plots; one without an end is a line."""
    return [
        Band(
            f"mark: {mark.text[:MARK_CHARACTERS]}",
            (mark.began_us - figures.began_us) / 1e6,
            ((mark.began_us if mark.is_open else mark.ended_us) - figures.began_us) / 1e6,
        )
        for mark in found
        if not mark.is_outside
    ]


def _what(mark: Marked) -> str:
    if mark.is_outside:
        return "outside of the run"
    if not (mark.groups or mark.failed or mark.members_lost):
        return "nothing was felt"
    return (
        f"{mark.groups:,} groups without coordinator, at most {duration(mark.longest_us / 1e3)}, "
        f"{mark.failed:,} requests refused or lost, {mark.members_lost:,} memberships lost"
    )


def _marks(found: Sequence[Marked], wall: Wall) -> str:
    headings = (
        *("mark", "from", "for", "groups without coordinator", "longest"),
        *("refused or lost", "memberships lost"),
    )
    rows = []
    for mark in found:
        lasted = f"{duration((mark.ended_us - mark.began_us) / 1e3)}{', open' if mark.is_open else ''}"
        felt = (
            ("outside of the run", "", "", "")
            if mark.is_outside
            else (
                number(mark.groups),
                duration(mark.longest_us / 1e3),
                number(mark.failed),
                number(mark.members_lost),
            )
        )
        rows.append((mark.text, wall.tell(mark.began_us), lasted, *felt))
    small = "What happened to service within each. Open: the mark has no end, and lasts until the next one."
    return table(headings, rows, text=(0,)) + note(small)


def _gaps(figures: Figures) -> str:
    longest = sorted(figures.gaps, key=lambda gap: -gap.length_us)[:GAPS_MAX]
    rows = [
        (
            gap.group_id,
            figures.wall.tell(gap.began_us),
            figures.wall.tell(gap.ended_us),
            duration(gap.length_us / 1e3),
            "yes" if gap.is_served_again else "no",
        )
        for gap in longest
    ]
    small = "Seconds are the run's, times UTC, as in the server's logs."
    return table(("group", "from", "until", "lasted", "served again"), rows) + note(small)
