"""What a tier tells of its groups is counted when all of it is there: sums of commits come later than the
rest."""

from __future__ import annotations

import threading
from pathlib import Path

from actors.coordinator.told.events import CLASSIC, Commits, MemberJoined, MemberLeft
from bench.swarm.replay import now
from storage.history.period import Period
from storage.history.segments.folder import Folder
from tests.history.segments.making import NOON_MS, publish, stretch

SPAN = Period(NOON_MS, NOON_MS + 60_000)
MEMBER = "g", CLASSIC, 1, "m", None, "c", "/127.0.0.1"


def test_commits_of_the_end_are_waited_for_and_counted(tmp_path: Path) -> None:
    """The leader sums them up after the period, and they are in a segment that begins after it."""
    folder = Folder(str(tmp_path))
    publish(
        folder,
        stretch(
            [
                MemberJoined(NOON_MS + 1_000, *MEMBER),
                Commits(NOON_MS + 55_000, "g", NOON_MS + 45_000, NOON_MS + 54_000, 10, 20, 0),
            ]
        ),
    )
    left = MemberLeft(SPAN.until_ms, *MEMBER, None, "left", None, None, 0)
    publish(folder, stretch([left], first=3))
    summed = Commits(SPAN.until_ms + 5_000, "g", NOON_MS + 55_000, SPAN.until_ms - 1, 5, 10, 0)
    later = threading.Timer(0.5, publish, (folder, stretch([summed], first=4)))
    later.start()
    found = now.of_tier(folder, SPAN, ["g"])
    later.join()
    assert (found["g"].commits, found["g"].offsets) == (15, 30)
