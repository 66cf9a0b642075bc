"""Figures that flatter nobody: what a share is a share of, and how much a peak was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage.history.jobs.engine import Engine, Row
from storage.history.jobs.run import made
from storage.history.jobs.seen import look
from tests.history.jobs.told import told

MINUTE_MS = 60_000
GROUP = {"group_id": "g", "group_type": "consumer"}


def table(engine: Engine, directory: Path, name: str, *rows: dict[str, Any]) -> list[Row]:
    folder = told(directory, rows)
    with made(engine, folder, look(folder)):
        return engine.rows(f"SELECT * FROM {name}")


def served_for(minutes: int) -> list[dict[str, Any]]:
    """A member comes, is waited for a minute of the time, and goes."""
    joined = {"at_ms": 0, "kind": "member_joined", "member_id": "a", "members": 1}
    began = {"at_ms": MINUTE_MS, "kind": "rebalance_began", "members": 1}
    ended = {"at_ms": 2 * MINUTE_MS, "kind": "rebalance_ended", "members": 1, "state": "Stable"}
    left = {"at_ms": minutes * MINUTE_MS, "kind": "member_left", "member_id": "a", "members": 0}
    return [{**GROUP, **row} for row in (joined, began, ended, left)]


@pytest.mark.parametrize("later_min", [11, 60, 1_000])
def test_an_empty_group_grows_no_more_available(engine: Engine, tmp_path: Path, later_min: int) -> None:
    """Time without members is no time of service: it once counted, and 97.71 % became 99.57 %."""
    last = {"at_ms": later_min * MINUTE_MS, "kind": "coordinator_lost"}
    [found] = table(engine, tmp_path, "groups", *served_for(10), last)
    assert (found["known_ms"], found["served_ms"]) == (later_min * MINUTE_MS, 10 * MINUTE_MS)
    assert found["availability"] == pytest.approx(0.9)


def test_who_had_no_members_is_neither_available_nor_not(engine: Engine, tmp_path: Path) -> None:
    expired = {**GROUP, "at_ms": 1, "kind": "offsets_expired", "count": 3}
    [found] = table(engine, tmp_path, "groups", expired, {"at_ms": 9, "kind": "coordinator_lost"})
    assert (found["served_ms"], found["availability"]) == (0, None)


def test_a_rebalance_without_an_end_counts_until_events_end(engine: Engine, tmp_path: Path) -> None:
    """Once it counted nothing, so a group that stood still for ever was available all the time."""
    joined, began, *_ = served_for(10)
    last = {"at_ms": 5 * MINUTE_MS, "kind": "coordinator_lost"}
    [found] = table(engine, tmp_path, "groups", joined, began, last)
    assert (found["unstable_ms"], found["availability"]) == (4 * MINUTE_MS, pytest.approx(0.2))


def test_a_peak_is_that_of_the_busiest_minute(engine: Engine, tmp_path: Path) -> None:
    """Sixteen commits a second for two minutes were told as 0.5: the mean of their hour."""
    rows = [
        {
            "group_id": "g",
            "at_ms": at_ms,
            "kind": "commits",
            "first_ms": at_ms - 10_000,
            "last_ms": at_ms,
            "commits": 160,
            "offsets": 160,
            "regressed": 0,
        }
        for at_ms in range(10 * MINUTE_MS + 10_000, 12 * MINUTE_MS + 1, 10_000)
    ]
    found = table(engine, tmp_path, "capacity", *rows)
    assert {row["peak_commits_per_s"] for row in found} == {16.0}
    assert (
        {row["commits"] / 3_600 for row in found}
        == {row["commits_per_s"] for row in found}
        == {1_920 / 3_600}
    )
