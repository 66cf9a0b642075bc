"""Reads what the target of a replay recorded of it, if the target is a tier whose history can be read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from bench.swarm.planning.scenario import BadScenario
from bench.swarm.replay import counts
from bench.swarm.replay.counts import Counts
from bench.swarm.replay.reading import recording
from storage.history.period import Period
from storage.history.segments.folder import Folder

WAIT_S: Final = 75.0
"""How long to wait for a tier's history: it writes events within history.segment.ms (30 s by default)."""
SUMS_WAIT_S: Final = 45.0
"""How long to wait, once these are there, for the sums of commits that leaders tell every 10 s: they may be
in the next segment. There is none of a group that has not committed since its last sum."""
POLL_S: Final = 2.0


def of_tier(folder: Folder, span: Period, groups: Iterable[str], wait_s: float = WAIT_S) -> dict[str, Counts]:
    """Count what happened in the run's groups. Waits until there are events of the time after `span`, when
    the members of each group left, and for what the groups committed until then. Raises TimeoutError if the
    events do not come, and OSError."""
    wanted = set(groups)
    deadline = time.monotonic() + wait_s
    while not wanted <= _ended(folder, span):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{folder.url} does not tell the end of the run after {wait_s:g} s")
        time.sleep(POLL_S)
    deadline = time.monotonic() + SUMS_WAIT_S
    while not wanted <= _summed(folder, span) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    found = counts.of_recording(recording(folder, span))
    return {name: each for name, each in found.items() if name in wanted}


def _ended(folder: Folder, span: Period) -> set[str]:
    """The groups of which there are events after the period."""
    later = Period(span.until_ms, span.until_ms + 24 * 3_600_000)
    try:
        seen = recording(folder, later)
    except BadScenario:
        return set()
    return {name for name, events in seen.groups.items() if events[-1].at_ms >= span.until_ms}


def _summed(folder: Folder, span: Period) -> set[str]:
    """The groups whose commits were summed up after the period: no commit of the period is missing."""
    summed_ms = recording(folder, span).summed_ms
    return {name for name, at_ms in summed_ms.items() if at_ms >= span.until_ms}
