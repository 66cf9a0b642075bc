"""A leader that is stopped records this in the history, and leaves nothing unwritten (issue 8)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from storage.history.segments.folder import Folder
from tests.history.read_back import read_all

ROOT = Path(__file__).resolve().parents[2]


def test_a_leader_that_nobody_follows_tells_that_it_stopped(tmp_path: Path) -> None:
    """The leader runs in a process of its own, which it sets up as an actor's; here it would start a Ray to
    tell others."""
    command = [sys.executable, "-m", "tests.leader.stopped_leader", str(tmp_path)]
    alone = {**os.environ, "RAY_ENABLE_AUTO_CONNECT": "0"}
    ran = subprocess.run(
        command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "0\n"), ran.stderr

    history = Folder(str(tmp_path / "data" / "history"))
    table, skipped = read_all(history, columns=["sequence", "kind", "cause"])
    told = [(row["sequence"], row["kind"], row["cause"]) for row in table.sort_by("sequence").to_pylist()]
    assert told == [(1, "coordinator_elected", None), (2, "coordinator_lost", "stopped")]
    assert skipped == []
