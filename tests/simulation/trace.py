"""What happened in a run: the newest lines, those of them that matter for a violation, and how they look."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

Trace = Callable[[float, str, str], None]
"""Called with the simulated time in seconds, the replica (or client) and what it does."""

LINES_MAX: Final = 20_000
TAIL_LINES: Final = 40
_WORD: Final = re.compile(r"[\w.\-]+\w|\w")
_INDEX: Final = re.compile(r"\b(?:entry|entries|index|offset|epoch|term)\s+(\d+)")


class Line(NamedTuple):
    now: float
    replica: str
    what: str

    def __str__(self) -> str:
        return f"{self.now:10.6f}  {self.replica:<10} {self.what}"


class Recorder:
    """A Trace that keeps the newest lines: a run that goes wrong does so at its end."""

    def __init__(self, lines_max: int = LINES_MAX) -> None:
        self.lines: deque[Line] = deque(maxlen=lines_max)

    def __call__(self, now: float, replica: str, what: str) -> None:
        self.lines.append(Line(now, replica, what))


def tail(lines: Iterable[Line], violation: str, lines_max: int = TAIL_LINES) -> list[Line]:
    """The last lines that concern the replicas or the entry that `violation` names; of everybody if it names
    none."""
    lines = list(lines)
    named = set(_WORD.findall(violation))
    replicas = {line.replica for line in lines} & named
    numbers = set(_INDEX.findall(violation))
    if not replicas and not numbers:
        return lines[-lines_max:]
    concerned = [
        line for line in lines if line.replica in replicas or not numbers.isdisjoint(_WORD.findall(line.what))
    ]
    return concerned[-lines_max:]
