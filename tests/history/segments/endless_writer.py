"""A leader's writer in a process of its own, to be killed: it writes events without end.

`python -m tests.history.segments.endless_writer FOLDER TERM`
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import count

from actors.ground.spec import HistorySettings
from actors.leader.history_writer import HistoryWriter
from tests.history.segments.making import NODE, PARTITION, TIER, changed, stretch

SEGMENT_MS = 100
EVENTS_AT_ONCE = 20
PAUSE_S = 0.002


def main() -> None:
    folder, term = sys.argv[1:]
    settings = HistorySettings(history_dir=folder, history_segment_ms=SEGMENT_MS)
    kept = HistoryWriter(settings, "", TIER, PARTITION, NODE)
    kept.start()
    pause = threading.Event()
    for first in count(1, EVENTS_AT_ONCE):
        now_ms = time.time_ns() // 1_000_000
        events = (changed(first + number, now_ms) for number in range(EVENTS_AT_ONCE))
        kept.keep(stretch(events, term=int(term), first=first))
        pause.wait(PAUSE_S)


if __name__ == "__main__":
    main()
