"""Whole swarms on a real tier: everything that a plan can do to members, judged by what they wrote down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.ground.throwaway import Tier
from bench.swarm.load.driver import Launch, Second, run_swarm
from bench.swarm.planning import due
from bench.swarm.planning.plan import (
    CRASH,
    CUT,
    GROW,
    LEAVE,
    PROTOCOLS,
    SLEEP,
    START,
    Action,
    MemberPlan,
    Plan,
    TopicPlan,
)
from cluster.cli import app
from storage.history.call_files import read_history
from storage.history.judge.findings import Limits
from storage.history.judge.verdict import judge

pytestmark = pytest.mark.ray

MEMBERS = 4
GROWN_S = 9.0


@pytest.fixture(scope="module")
def tier() -> Iterator[Tier]:
    with Tier("--nodes", "1", "--replicas", "1", "--set", "group.initial.rebalance.delay.ms=100") as running:
        yield running


def eventful(prefix: str, duration_s: float) -> Plan:
    """Plan a group of each protocol; member 0 leaves and returns, 1 crashes, 2 sleeps, 3 is cut off."""
    topics, members, actions = [], [], []
    for protocol in PROTOCOLS:
        group_id, topic = f"{prefix}-{protocol}", f"{prefix}-{protocol}-clicks"
        topics.append(TopicPlan(topic, 6))
        actions.append(Action(GROWN_S, GROW, topic, 8))
        names = [f"{group_id}/{number}" for number in range(MEMBERS)]
        members += [
            MemberPlan(
                name,
                group_id,
                protocol,
                (topic,),
                session_timeout_ms=6_000 if protocol != "consumer" else 45_000,
                heartbeat_interval_ms=300,
                rebalance_timeout_ms=6_000,
                commit_interval_ms=400,
            )
            for name in names
        ]
        actions += [Action(number / 10, START, name) for number, name in enumerate(names)]
        actions += [Action(3.0, LEAVE, names[0]), Action(5.0, START, names[0]), Action(4.0, CRASH, names[1])]
        actions += [Action(4.5, SLEEP, names[2], 1.5), Action(6.0, CUT, names[3])]
    ordered = tuple(sorted(actions))
    return Plan("eventful", 1, duration_s, tuple(topics), tuple(members), ordered)


@pytest.mark.slow
def test_an_eventful_swarm_of_two_processes_is_judged_fine(tier: Tier, tmp_path: Path) -> None:
    seconds: list[Second] = []
    plan = eventful("run", 18.0)
    directory = run_swarm(
        plan, tier.bootstrap, tmp_path / "run", Launch(processes=2), on_second=seconds.append
    )
    record = json.loads((directory / "run.json").read_text())
    history = read_history(directory)
    planned = due.planned(record, history.ended_us)
    verdict = judge(history, Limits(recovery_ms=7_000), planned=planned)
    assert verdict.is_fine, verdict.violations
    assert verdict.judged["recovered groups"] >= 3
    assert record["is_finished"]
    assert record["words"] == []
    assert history.is_whole
    assert {topic.partitions for topic in history.topics} == {6, 8}
    assert len({call.client.rpartition("#")[0] for call in history.calls if "/" in call.client}) == 16
    assert max(second.groups_stable for second in seconds) == len(PROTOCOLS)


@pytest.mark.slow
def test_what_the_server_of_a_data_directory_needs_is_recorded(tier: Tier, tmp_path: Path) -> None:
    flags = ["--data-dir", str(tier.data_dir), "--seconds", "10", "--members", "10"]
    result = CliRunner().invoke(app, ["swarm", "run", "steady", *flags, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["server"]["seconds"] >= 6
    assert report["server"]["cores_max"] > 0
    assert report["server"]["memory_mib_mean"] > 100
    assert (report["run"]["consumer_session_ms"], report["words"]) == (45_000, [])


@pytest.mark.slow
def test_a_swarm_that_is_stopped_keeps_what_it_has(tier: Tier, tmp_path: Path) -> None:
    def watch(second: Second) -> None:
        if second.at_s > 3:
            raise KeyboardInterrupt

    directory = run_swarm(eventful("stopped", 120.0), tier.bootstrap, tmp_path / "run", on_second=watch)
    record = json.loads((directory / "run.json").read_text())
    assert not record["is_finished"]
    assert record["words"][0].startswith("stopped after ")
    history = read_history(directory)
    assert history.is_whole
    assert judge(history, planned=due.planned(record, history.ended_us)).is_fine


@pytest.mark.slow
def test_who_needs_the_whole_run_is_stopped_with_it(tier: Tier, tmp_path: Path) -> None:
    def watch(second: Second) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_swarm(
            eventful("whole", 120.0),
            tier.bootstrap,
            tmp_path / "run",
            Launch(is_whole=True),
            on_second=watch,
        )
    assert (tmp_path / "run" / "run.json").exists(), "it ended as a swarm does"
