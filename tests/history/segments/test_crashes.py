"""A writer that is killed at any moment loses the last moments and leaves nothing broken in sight."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.history.segments import reader
from storage.history.segments.folder import Folder
from storage.history.segments.names import is_hidden
from tests.history.read_back import read_all
from tests.history.segments.endless_writer import SEGMENT_MS
from tests.polling import until

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def _writer(root: Path, term: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.history.segments.endless_writer", str(root), str(term)]
    writer = subprocess.Popen(command, cwd=ROOT)
    try:
        yield writer
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


def _kill_many_times(root: Path, kills: int) -> None:
    chance = random.Random(kills)
    folder = Folder(str(root))
    for term in range(1, kills + 1):
        with _writer(root, term):
            until(lambda t=term: any(f.segment.term == t for f in folder.segments().found), "no segment")  # type: ignore[misc]
            threading.Event().wait(chance.uniform(0, 2 * SEGMENT_MS / 1000))
            killed_ms = time.time_ns() // 1_000_000
        _check(folder, term, killed_ms)
    assert {each.segment.term for each in folder.segments().found} == set(range(1, kills + 1))


def _check(folder: Folder, term: int, killed_ms: int) -> None:
    """All that is to be seen is whole, and each term's events are there without a gap."""
    table, skipped = read_all(folder, columns=["term", "sequence", "at_ms"])
    assert skipped == []
    rows = table.to_pylist()
    mine = [row for row in rows if row["term"] == term]
    assert [row["sequence"] for row in mine] == list(range(1, len(mine) + 1))
    lost_ms = killed_ms - mine[-1]["at_ms"]
    assert lost_ms < 20 * SEGMENT_MS, "more than what was not published yet, on a busy machine"


def test_a_killed_writer_leaves_only_whole_segments(tmp_path: Path) -> None:
    _kill_many_times(tmp_path, 3)


@pytest.mark.chaos
@pytest.mark.timeout(900)  # 40 processes start one after the other
def test_a_writer_killed_many_times_leaves_only_whole_segments(tmp_path: Path) -> None:
    _kill_many_times(tmp_path, 40)
    left = [path for path in tmp_path.rglob("*") if path.is_file() and is_hidden(path.name)]
    assert len(left) <= 40, "a kill leaves one hidden file at most"


def test_a_half_written_file_is_hidden_from_everybody(tmp_path: Path) -> None:
    """The state between the first byte and the rename, made by a write that never ends."""
    folder = Folder(str(tmp_path))
    with _writer(tmp_path, 1):
        until(lambda: bool(folder.segments().found), "no segment")
    found = folder.segments().found[0].segment
    began, go_on = threading.Event(), threading.Event()

    def write(path: str) -> None:
        Path(path).write_bytes(b"PAR1")
        began.set()
        go_on.wait(10)

    before = reader.survey(folder)
    thread = threading.Thread(target=folder.publish, args=(found._replace(term=9), write))
    thread.start()
    assert began.wait(10)
    try:
        assert len(list((tmp_path / found.folder).glob(f".*.{os.getpid()}.tmp"))) == 1
        assert reader.survey(folder) == before
    finally:
        go_on.set()
        thread.join()
