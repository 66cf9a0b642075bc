"""Tells when something happened as people and logs do: by the wall clock in UTC, beside seconds of the run.

PURE. Rows have a monotonic clock; run.json says (`wall_us`) what Unix time it was when that was zero. Moments
have the form of the server's logs (`actors/ground/logs.py`), so that they can be looked up there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

_MOMENT: Final = re.compile(r"(?<![\d.])(\d+)\.(\d{6}) s\b")
"""A moment as `judge.findings.when` tells it, with six digits after the point."""


def date_and_time(unix_us: int) -> str:
    """A moment such as "2026-11-23 21:30:01.123"."""
    return datetime.fromtimestamp(unix_us // 1_000 / 1e3, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def iso(unix_us: int) -> str:
    """A moment in ISO 8601, such as "2026-11-23T21:30:01.123Z"."""
    return f"{date_and_time(unix_us).replace(' ', 'T')}Z"


class Wall(NamedTuple):
    """The wall clock of one run."""

    began_us: int
    """The run's beginning on the record's clock."""
    wall_us: int | None
    """The Unix time when the record's clock was zero; None: the run did not say."""

    def unix_us(self, at_us: int) -> int | None:
        return None if self.wall_us is None else at_us + self.wall_us

    def iso(self, at_us: int) -> str:
        """The moment in ISO 8601; empty if the wall clock is not known."""
        unix_us = self.unix_us(at_us)
        return "" if unix_us is None else iso(unix_us)

    def clock(self, at_us: int) -> str:
        """The time of day, such as "21:30:01.123 UTC"; empty if it is not known."""
        unix_us = self.unix_us(at_us)
        return "" if unix_us is None else f"{date_and_time(unix_us)[11:]} UTC"

    def tell(self, at_us: int) -> str:
        """The moment in both clocks, such as "+12.345 s (21:30:01.123 UTC)"."""
        clock = self.clock(at_us)
        return f"{(at_us - self.began_us) // 1_000 / 1e3:+.3f} s" + (f" ({clock})" if clock else "")

    def in_words(self, text: str) -> str:
        """A judge's text, with each moment of the record's clock written as `tell` does."""
        return _MOMENT.sub(lambda found: self.tell(int(found[1] + found[2])), text)


def wall_of(run: Mapping[str, Any], began_us: int) -> Wall:
    """The wall clock of a run. `run` is what run.json says, as far as there is one."""
    wall_us = run.get("wall_us")
    return Wall(began_us, wall_us if isinstance(wall_us, int) else None)
