"""How a run begins and ends: topics that are made late, and what locust's table shows."""

from __future__ import annotations

import json
from pathlib import Path

from bench.swarm.driver import LOG_FILE, run_swarm
from bench.swarm.plan import CLASSIC_RANGE, START, Action, MemberPlan, Plan, TopicPlan
from storage.history.call_files import read_history
from tests.swarm.whole_broker import Whole

TOPICS_TAKE_S = 2.5
MEMBER = MemberPlan(
    "orders/0", "orders", CLASSIC_RANGE, ("clicks",), heartbeat_interval_ms=200, commit_interval_ms=300
)
PLAN = Plan("late", 1, 2.0, (TopicPlan("clicks", 2),), (MEMBER,), (Action(0.0, START, "orders/0"),))


def test_a_swarm_begins_when_its_topics_are_there_however_late_that_is(tmp_path: Path) -> None:
    """It ended at once, as if all its workers were done, when topics took more than a second to be made.
    Locust's table told counts (members, commits) as milliseconds."""
    with Whole(creates_in_s=TOPICS_TAKE_S).serving() as broker:
        directory = run_swarm(PLAN, broker.bootstrap, tmp_path / "run")
    record = json.loads((directory / "run.json").read_text())
    assert (record["is_finished"], record["words"]) == (True, [])
    history = read_history(directory)
    assert {"JoinGroup", "Heartbeat", "OffsetCommit"} <= {call.api for call in history.calls}
    table = (directory / LOG_FILE).read_text()
    assert "OffsetCommit" in table
    assert "members" not in table
    assert "in a second" not in table
