"""A swarm on a real tier, whose history is replayed on another: as much happens again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.ground.throwaway import Tier
from bench.swarm.load.driver import run_swarm
from bench.swarm.planning import scenario
from bench.swarm.replay import counts, now, reading
from bench.swarm.replay.counts import Counts
from bench.swarm.replay.planning import Wish, replay
from bench.swarm.told.report import read_run
from storage.history.period import Period

SCENARIO = """
duration_s = 60
[[groups]]
name = "orders"
count = 2
members = 3
protocols = { cooperative-sticky = 1, consumer = 1 }
commit_interval_ms = 1_000
[[groups.shapes]]
shape = "rolling-deploy"
pause_s = 5.0
[[groups]]
name = "crashing"
count = 1
members = 3
protocols = { range = 1 }
session_timeout_ms = 8_000
[[groups.shapes]]
shape = "crash-loop"
"""
FLAGS = ("--nodes", "1", "--replicas", "1", "--set", "history.segment.ms=1000")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_joins_leaves_crashes_and_commits_come_again(tmp_path: Path) -> None:
    plan = scenario.parse(SCENARIO, "busy.toml").plan(seed=7, prefix="busy-")
    with Tier(*FLAGS, nodes=1) as tier:
        directory = run_swarm(plan, tier.bootstrap, tmp_path / "then")
        span = window(directory, plan.duration_s)
        folder = reading.folder_of(str(tier.data_dir))
        groups = {member.group_id for member in plan.members}
        then = now.of_tier(folder, span, groups)
        replayed = replay(reading.recording(folder, span), Wish(prefix="again-"), seed=8)
    with Tier(*FLAGS, nodes=1) as tier:
        directory = run_swarm(replayed.plan, tier.bootstrap, tmp_path / "now")
        timeline = replayed.timeline
        span = window(directory, timeline.length_s, timeline.lead_s)
        found = now.of_tier(reading.folder_of(str(tier.data_dir)), span, replayed.groups)
    assert then.keys() == groups
    for name, again in found.items():
        before = then[replayed.groups[name]]
        assert amounts(again) == amounts(before), name
    total, before = counts.together(found.values()), counts.together(then.values())
    assert total.commits == pytest.approx(before.commits, rel=0.1)
    assert total.offsets == pytest.approx(before.offsets, rel=0.15)


def amounts(of: Counts) -> tuple[int, ...]:
    return of.joins, of.leaves, of.expired, of.members


def window(directory: Path, length_s: float, lead_s: float = 0.0) -> Period:
    """The period of a run's part, by the tier's clock."""
    run = read_run(directory)
    since_ms = (run["began_us"] + run["wall_us"]) // 1_000 + round(lead_s * 1_000)
    return Period(since_ms, since_ms + round(length_s * 1_000))
