"""How a run begins and ends: topics and coordinators that come late, names, and what is left behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import gevent
import pytest

from bench.ground import run_names
from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.load.clean_up import clean_up
from bench.swarm.load.driver import LOCUSTFILE, LOG_FILE, Launch, run_swarm
from bench.swarm.load.warm_up import warm_up
from bench.swarm.planning import plan_file, scenario
from bench.swarm.planning.plan import START, Action, MemberPlan, Plan, TopicPlan
from bench.swarm.wire.coordinators import Bootstrap
from cluster import child_process
from cluster.groups.properties import properties
from storage.history.call_files import read_history
from tests.swarm.whole_broker import Whole

TOPICS_TAKE_S = 2.5
MEMBER = MemberPlan(
    "orders/0", "orders", CLASSIC_RANGE, ("clicks",), heartbeat_interval_ms=200, commit_interval_ms=300
)
PLAN = Plan("late", 1, 2.0, (TopicPlan("clicks", 2),), (MEMBER,), (Action(0.0, START, "orders/0"),))


@pytest.fixture(scope="module")
def whole() -> Whole:
    whole = Whole(creates_in_s=TOPICS_TAKE_S)
    whole.looks_without_leaders, whole.loading = 3, [14, 16]
    whole.members_left_over = {"orders": "crashed"}
    return whole


@pytest.fixture(scope="module")
def directory(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of one run, for all that is seen of a whole one."""
    with whole.serving() as broker:
        broker.coordinator_errors += [15, 15]
        out = tmp_path_factory.mktemp("begin") / "run"
        return run_swarm(PLAN, broker.bootstrap, out, Launch(cleans_up=True))


def test_a_swarm_begins_when_its_topics_are_there_however_late_that_is(directory: Path) -> None:
    """Once a swarm ended at once when its topics took over a second, as if all its workers were done."""
    record = json.loads((directory / "run.json").read_text())
    assert (record["is_finished"], record["words"]) == (True, [])
    apis = {call.api for call in read_history(directory).calls}
    assert {"JoinGroup", "Heartbeat", "OffsetCommit"} <= apis


def test_a_plan_begins_when_topics_are_led_and_coordinators_answer(directory: Path, whole: Whole) -> None:
    """Kafka makes `__consumer_offsets` at the first look-up: that counted as seconds without coordinator."""
    assert whole.looks_without_leaders < 0
    assert {call.error_code for call in read_history(directory).calls} == {0}


def test_locusts_table_holds_durations_alone(directory: Path) -> None:
    """Once the table showed counts of members and of commits as if they were milliseconds."""
    table = (directory / LOG_FILE).read_text()
    assert "OffsetCommit" in table
    assert "members" not in table
    assert "in a second" not in table


def test_a_run_leaves_neither_groups_nor_topics_behind_though_a_member_is_still_there(
    directory: Path, whole: Whole
) -> None:
    assert directory.exists()
    assert (whole.deleted_groups, whole.deleted_topics) == (["orders"], ["clicks"])


@pytest.mark.parametrize("flags", [(), ("--no-cleanup",)], ids=["by default", "not with --no-cleanup"])
def test_plain_locust_leaves_nothing_behind_either(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Once only `groupd swarm run` deleted groups and topics, and plain Locust left them."""
    served, plan, out = Whole(), tmp_path / "plan.json", tmp_path / "run"
    plan_file.save(PLAN, plan)
    with served.serving() as broker:
        command = ["-f", str(LOCUSTFILE), "--headless", "--host", broker.bootstrap, "--plan", str(plan)]
        locust = child_process.python("locust", *command, "--out", str(out), *flags)
        subprocess.run(locust, env=child_process.environment(), check=True, capture_output=True, timeout=60)
    assert json.loads((out / "run.json").read_text())["words"] == []
    kept = bool(flags)
    assert (served.deleted_groups, served.deleted_topics) == (([], []) if kept else (["orders"], ["clicks"]))


def test_runs_that_begin_in_the_same_second_share_no_names() -> None:
    """Two swarms of one second read and committed in the same groups: 42 false alarms of the judge."""
    stamps = [run_names.stamp() for _ in range(5)]
    assert len(set(stamps)) == 5
    plans = [scenario.load("steady").plan(7, prefix=run_names.prefix(stamp)) for stamp in stamps]
    groups = [{member.group_id for member in plan.members} for plan in plans]
    topics = [{topic.name for topic in plan.topics} for plan in plans]
    assert len(set().union(*groups)) == sum(map(len, groups))
    assert len(set().union(*topics)) == sum(map(len, topics))


def test_a_coordinator_that_never_answers_is_told_and_the_plan_begins_all_the_same() -> None:
    whole = Whole()
    whole.loading = [14] * 1_000
    with whole.serving() as broker:
        given = properties(broker.bootstrap, None)
        bootstrap = Bootstrap(given, "test")
        word = warm_up(bootstrap, given, PLAN, limit_s=0.3)
        bootstrap.close()
        gevent.sleep(0)
    assert word == (
        "1 of 1 groups had no coordinator within 0.3 s before the run began, as orders: "
        "COORDINATOR_LOAD_IN_PROGRESS."
    )


def test_what_cannot_be_cleaned_up_is_told_in_a_line() -> None:
    whole = Whole()
    with whole.serving() as broker:
        given = properties(broker.bootstrap, None)
    word = clean_up(PLAN, given)
    assert word.startswith("Its groups and topics are left over: no Kafka answers at 127.0.0.1:")
