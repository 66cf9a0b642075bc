"""What the target of a replay recorded of it, if the target is a tier whose history can be read."""

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
"""A tier writes what happened within history.segment.ms (30 s unless it is configured otherwise), commits in
sum every 10 s."""
POLL_S: Final = 2.0


def of_tier(folder: Folder, span: Period, groups: Iterable[str], wait_s: float = WAIT_S) -> dict[str, Counts]:
    """Counts by the run's groups. Waits until events are there of the time after `span`, when the members
    of each group left. Raises TimeoutError: they do not come. Also OSError."""
    wanted = set(groups)
    deadline = time.monotonic() + wait_s
    while not wanted <= _written(folder, span):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{folder.url} does not tell the end of the run after {wait_s:g} s")
        time.sleep(POLL_S)
    found = counts.of_recording(recording(folder, span))
    return {name: each for name, each in found.items() if name in wanted}


def _written(folder: Folder, span: Period) -> set[str]:
    """Groups of which there are events after the period."""
    later = Period(span.until_ms, span.until_ms + 24 * 3_600_000)
    try:
        seen = recording(folder, later)
    except BadScenario:
        return set()
    return {name for name, events in seen.groups.items() if events[-1].at_ms >= span.until_ms}
