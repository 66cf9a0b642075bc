"""Both engines read segments of schema version 1 beside those of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.history.jobs.engine import ALL_EVENTS, Engine
from storage.history.jobs.seen import look
from tests.history.segments.test_older import BOTH, NAMES, changed_columns, history


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [(0, 2, BOTH), (0, 1, ([None], NAMES)), (1, 2, ([10_000], NAMES)), (0, 0, ([], []))],
    ids=["both", "the older alone", "the newer alone", "neither"],
)
def test_events_have_the_columns_and_names_of_this_version(
    engine: Engine, tmp_path: Path, first: int, end: int, expected: tuple[list[int | None], list[str]]
) -> None:
    folder, segments = history(tmp_path)
    folder.remove([*segments[:first], *segments[end:]])
    engine.read(folder, look(folder).found)
    rows = engine.rows(f"SELECT sequence, kind, api, session_timeout_ms FROM {ALL_EVENTS}")
    assert changed_columns(rows) == expected
