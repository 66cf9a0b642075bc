"""A writer whose files may have no more than some bytes, as on a full disk; later there is room again.

`python -m tests.history.segments.full_disk FOLDER`: prints what it dropped and how often it told.
"""

from __future__ import annotations

import logging
import resource
import sys
from typing import Any

from actors.ground.spec import HistorySettings
from actors.leader import history_writer
from actors.leader.history_writer import HistoryWriter
from tests.history.segments.making import NODE, NOON_MS, PARTITION, TIER, changed, stretch
from tests.polling import until

SEGMENT_EVENTS = 500


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: Any) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    lines = _Lines()
    logging.getLogger("groupd.history").addHandler(lines)
    history_writer.RETRY_S = 0.3  # type: ignore[misc]
    settings = HistorySettings(history_dir=sys.argv[1], history_segment_ms=100)
    kept = HistoryWriter(settings, "", TIER, PARTITION, NODE)
    kept.start()
    sequence = 0

    def write(events: list[Any]) -> None:
        nonlocal sequence
        kept.keep(stretch(events, first=sequence + 1))
        sequence += len(events)

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    for failures in range(1, 4):
        write([changed(number) for number in range(SEGMENT_EVENTS)])
        until(lambda n=failures: kept.dropped >= n * SEGMENT_EVENTS, "nothing dropped")  # type: ignore[misc]
        assert list(kept.newly_dropped(NOON_MS)) == [], "not while nothing can be written"
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    told: list[Any] = []

    def is_told() -> bool:
        """Events go on; at last one of them is written, and what was dropped can be told."""
        write([changed(0)])
        told.extend(kept.newly_dropped(NOON_MS))
        return bool(told)

    until(is_told, "never told")
    write(told)
    kept.close()
    print(sequence - len(told), kept.dropped, *(line.partition(" to ")[0] for line in lines.lines), sep="\n")


if __name__ == "__main__":
    main()
