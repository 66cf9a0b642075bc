"""Times and amounts as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def duration(ms: float | None) -> str:
    """A duration such as "340 ms", "12.5 s", "3 min 20 s", "2 h 05 min", "3 d 4 h"."""
    if ms is None:
        return "not ended"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    if seconds < 86_400:
        return f"{seconds // 3_600} h {seconds % 3_600 // 60:02} min"
    return f"{seconds // 86_400} d {seconds % 86_400 // 3_600} h"


def moment(at_ms: int) -> str:
    """A moment in UTC, to the second."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"


def plural(number: int, what: str) -> str:
    """A number with its noun, such as "1 group", "1,200 groups"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def share(part: float | None) -> str | None:
    """A share such as "97.71 %"; None where there is no whole."""
    return None if part is None else f"{100 * part:.2f} %"
