"""How many requests a plan makes due."""

from __future__ import annotations

import pytest

from bench.swarm.planning.due import due_of, planned
from bench.swarm.planning.plan import (
    CONSUMER,
    CRASH,
    LEAVE,
    SLEEP,
    START,
    Action,
    MemberPlan,
    Plan,
    TopicPlan,
)

MEMBER = MemberPlan("g/0", "g", "range", ("t",), heartbeat_interval_ms=1_000, commit_interval_ms=0)


def due(*actions: Action, member: MemberPlan = MEMBER, at_s: float = 100.0, partitions: int = 4) -> float:
    plan = Plan("test", 1, 100.0, (TopicPlan("t", partitions),), (member,), actions)
    run = {"due": due_of(plan).plain(), "began_us": 5_000_000}
    found = planned(run, 5_000_000 + int(at_s * 1e6))
    assert found is not None
    return found.requests


def test_heartbeats_are_due_while_a_member_is_there() -> None:
    start = Action(10.0, START, "g/0")
    assert due(start) == pytest.approx(1 + 90)
    assert due(start, at_s=5.0) == 0
    assert due(start, at_s=60.0) == pytest.approx(1 + 50)
    for end in (LEAVE, CRASH):
        assert due(start, Action(30.0, end, "g/0")) == pytest.approx(1 + 20)
        assert due(start, Action(30.0, end, "g/0"), Action(40.0, START, "g/0")) == pytest.approx(2 + 80)


def test_a_held_kip_848_heartbeat_takes_up_to_nine_fifths_of_its_interval() -> None:
    member = MEMBER._replace(protocol=CONSUMER)
    assert due(Action(10.0, START, "g/0"), member=member) == pytest.approx(1 + 90 / 9)


def test_commits_are_due_of_members_that_own_something_and_are_awake() -> None:
    start = Action(0.0, START, "g/0")
    commits = MEMBER._replace(commit_interval_ms=500, rebalance_timeout_ms=30_000)
    assert due(start, member=commits) == pytest.approx(1 + 100 + 200)
    assert due(start, member=commits, partitions=0) == pytest.approx(1 + 100)
    asleep = Action(20.0, SLEEP, "g/0", 10.0)
    assert due(start, asleep, member=commits) == pytest.approx(1 + 100 + 180)
    beyond = Action(20.0, SLEEP, "g/0", 40.0)
    assert due(start, beyond, member=commits) == pytest.approx(1 + 90 + 120)


def test_a_record_of_older_swarms_does_not_say() -> None:
    assert planned({"began_us": 5}, 10) is None
