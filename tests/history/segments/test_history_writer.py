"""The thread beside the leader: it writes, or counts what it drops; it never holds its loop up."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from actors.ground.spec import HistorySettings
from actors.leader.history_writer import LOADED_AFTER_S, HistoryWriter
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all
from tests.history.segments.making import NODE, NOON_MS, PARTITION, TIER, changed, stretch
from tests.polling import until

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def _started(root: Path, **settings: Any) -> Iterator[HistoryWriter]:
    kept = HistoryWriter(HistorySettings(**settings), str(root), TIER, PARTITION, NODE)
    kept.start()
    try:
        yield kept
    finally:
        kept.close()


def _rows(root: Path) -> list[dict[str, Any]]:
    table, skipped = read_all(Folder(str(root)), columns=["kind", "term", "sequence", "count", "cause"])
    assert skipped == []
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_by_default_history_is_below_the_data_directory_and_whole_after_a_stop(tmp_path: Path) -> None:
    with _started(tmp_path) as kept:
        kept.keep(stretch(map(changed, range(1_234))))
    rows = _rows(tmp_path / "history")
    assert [row["sequence"] for row in rows] == list(range(1, 1_235))
    assert kept.dropped == 0


def test_a_segment_appears_when_its_time_has_come(tmp_path: Path) -> None:
    with _started(tmp_path, history_segment_ms=100) as kept:
        kept.keep(stretch([changed(1)]))
        until(lambda: bool(_rows(tmp_path / "history")), "not published")


def test_the_writer_is_not_loaded_in_the_moment_in_which_a_leader_is_elected(tmp_path: Path) -> None:
    """The clients of the dead leader come then, and loading holds the interpreter."""
    with _started(tmp_path) as kept:
        began_at = time.monotonic()
        kept.keep(stretch([changed(1)]))
        until(lambda: kept._writer is not None, "not loaded")
        assert time.monotonic() - began_at >= LOADED_AFTER_S


def test_a_segment_appears_when_it_is_large(tmp_path: Path) -> None:
    with _started(tmp_path, history_segment_bytes=100_000) as kept:
        kept.keep(stretch(map(changed, range(5_000))))
        folder = Folder(str(tmp_path / "history"))
        until(lambda: len(folder.segments().found) > 1, "not published")


def test_terms_have_segments_of_their_own(tmp_path: Path) -> None:
    with _started(tmp_path) as kept:
        for term in (5, 7):
            kept.keep(stretch(map(changed, range(10)), term=term))
    found = Folder(str(tmp_path / "history")).segments().found
    assert [(each.segment.term, each.segment.last_sequence) for each in found] == [(5, 10), (7, 10)]


def test_what_finds_no_room_is_counted_and_told(tmp_path: Path) -> None:
    """The thread is not started before the queue has overflowed."""
    kept = HistoryWriter(HistorySettings(history_queue_max_events=100), str(tmp_path), TIER, PARTITION, NODE)
    kept.keep(stretch(map(changed, range(90))))
    kept.keep(stretch(map(changed, range(90, 130)), first=91))
    assert kept.dropped == 30
    kept.start()
    try:
        told: list[Any] = []
        until(lambda: bool(told) or bool(told.extend(kept.newly_dropped(NOON_MS))), "not told")
        assert list(kept.newly_dropped(NOON_MS)) == [], "once"

        def is_kept() -> bool:
            before = kept.dropped
            kept.keep(stretch(told, first=131))
            return kept.dropped == before

        until(is_kept, "no room")
    finally:
        kept.close()
    *rows, last = _rows(tmp_path / "history")
    assert len(rows) == 100
    assert (last["kind"], last["cause"], last["count"]) == ("events_dropped", "queue full", 30)


def test_a_full_disk_is_told_once_and_every_event_is_written_or_counted(tmp_path: Path) -> None:
    """The writer has a process of its own, because its files may not grow."""
    command = [sys.executable, "-m", "tests.history.segments.full_disk", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    kept, dropped, *lines = ran.stdout.splitlines()
    assert lines[0] == "history is not written"
    assert lines[1].startswith("history is written again")
    assert len(lines) == 2
    table, skipped = read_all(Folder(str(tmp_path)), columns=["kind", "count"])
    assert skipped == []
    told = pc.sum(table["count"]).as_py()
    written = sum(kind != "events_dropped" for kind in table["kind"].to_pylist())
    assert told == int(dropped)
    assert written + told == int(kept)


def test_nothing_is_written_or_dropped_where_history_is_off(tmp_path: Path) -> None:
    with _started(tmp_path, history_enable=False) as kept:
        kept.keep(stretch(map(changed, range(10))))
    assert kept.dropped == 0
    assert list(tmp_path.iterdir()) == []
