"""What a rebalance cost, by its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage.history.jobs.engine import Engine, Row
from storage.history.jobs.run import made
from storage.history.jobs.seen import look
from tests.history.jobs.told import told

ALWAYS = {"group_id": "g", "group_type": "classic"}


def only(engine: Engine, directory: Path, *rows: dict[str, Any]) -> Row:
    """The one rebalance of these events."""
    folder = told(directory, [{**ALWAYS, **row} for row in rows])
    with made(engine, folder, look(folder)):
        [found] = engine.rows("SELECT * FROM rebalances")
    return found


@pytest.mark.parametrize(("assignor", "idle"), [("range", 9), ("cooperative-sticky", 2)])
def test_partitions_of_who_left_are_idle_while_more_is_waited_for(
    engine: Engine, tmp_path: Path, assignor: str, idle: int
) -> None:
    """The others work on then; in the rebalance itself, eager members stop."""
    found = only(
        engine,
        tmp_path,
        {"at_ms": 100, "kind": "rebalance_delayed", "cause": "member left", "duration_ms": 500},
        {"at_ms": 400, "kind": "rebalance_began", "cause": "2 joins and leaves, taken together"},
        {"at_ms": 410, "kind": "rebalance_ended", "assignor": assignor, "partitions": 9, "moved": 2},
    )
    assert (found["began_ms"], found["delayed_ms"], found["duration_ms"]) == (400, 300, 10)
    assert found["unowned_partition_ms"] == idle * 10 + 2 * 300


def test_a_leader_that_died_while_it_waited_led_no_rebalance(engine: Engine, tmp_path: Path) -> None:
    """The leader's heir began it, and those partitions were idle all the time."""
    found = only(
        engine,
        tmp_path,
        {"at_ms": 100, "kind": "rebalance_delayed", "cause": "member left", "duration_ms": 500},
        {"at_ms": 400, "kind": "rebalance_began", "term": 2, "cause": "session timed out"},
        {"at_ms": 410, "kind": "rebalance_ended", "term": 2, "partitions": 9, "moved": 2},
    )
    assert (found["terms"], found["delayed_ms"], found["began_again"]) == (1, 300, 0)
