"""`groupd swarm replay`: what it writes before it runs, and what its report says afterwards."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.swarm.command import run
from bench.swarm.planning import plan_file
from bench.swarm.replay import kept
from bench.swarm.replay.counts import of_recording
from bench.swarm.replay.planning import Wish, replay
from bench.swarm.runs.replay import replay_history
from bench.swarm.told.report import report
from cluster.cli import app
from storage.history.generator.plan import plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import write
from storage.history.segments.folder import Folder
from tests.swarm.histories import S, Story, World
from tests.swarm.replay.recordings import Events

SPEC = Spec(seed=3, events=3_000, days=1, groups=10, members=4)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history")
    write(plan(SPEC), Folder(str(directory)))
    return directory


def test_plan_only_writes_and_shows_what_would_run(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["swarm", "replay", str(recorded), "--plan-only", "--out", str(out), "--times", "2"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "Planned: 20 groups, 80 members" in shown.stdout
    assert "members fetch nothing" in shown.stdout
    assert "Nothing was run." in shown.stdout
    planned = plan_file.load(out / kept.PLAN)
    assert len(planned.members) == 80
    assert (out / kept.SUMMARY).read_text() in shown.stdout + "\n"
    assert json.loads((out / kept.FILE).read_text())["now"] is None


def test_the_plan_is_json_too(recorded: Path, tmp_path: Path) -> None:
    arguments = ["swarm", "replay", str(recorded), "--plan-only", "--out", str(tmp_path / "run"), "--json"]
    told = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert told["members"] == 40
    assert told["words"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--since", "soon"], "--since soon: minutes (15m), hours (1h)"),
        (["--since", "5m"], "--since 5m: nothing is recorded from then to 2026-03-02"),
        (["--group", "biling"], "nothing is recorded of group biling"),
        (["--threshold", "speed < 1"], "speed"),
        (["--junit", "/nowhere/swarm.xml"], "there is no directory /nowhere"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_a_line(
    recorded: Path, tmp_path: Path, flags: list[str], says: str
) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["swarm", "replay", str(recorded), "--out", str(out), *flags])
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not out.exists()


def test_limits_of_the_figures_are_part_of_the_plan(recorded: Path, tmp_path: Path) -> None:
    """A replay had no --threshold and no --least-answered, and so none could fail in CI for being slow."""
    out = tmp_path / "run"
    limits = ["--threshold", "errors < 1%", "--least-answered", "0.9"]
    arguments = ["swarm", "replay", str(recorded), "--plan-only", "--out", str(out), *limits]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    planned = plan_file.load(out / kept.PLAN)
    assert (planned.thresholds, planned.least_answered) == (("errors < 1%",), 0.9)


def test_replay_has_all_flags_of_a_run_that_do_not_shape_its_plan() -> None:
    """Once --junit, --summary and --mark were missing from it."""
    of_a_scenario = {"scenario", "minutes", "seconds", "members", "groups"}
    of_a_scenario |= {"commit_interval_ms", "protocol", "client"}
    of_a_run = set(inspect.signature(run).parameters) - of_a_scenario
    assert of_a_run <= set(inspect.signature(replay_history).parameters)


def replayed_run(directory: Path) -> Story:
    """A directory as it is after a run whose groups are those of the little world."""
    events = Events()
    events.joined(0, "billing", "a")
    events.rebalanced(3, "billing", 3, moved=4)
    events.left(20, "billing", "a")
    events.committed("billing", 40, 40)
    recording = events.recording(0, 40)
    found = replay(recording, Wish(), seed=1)
    story = Story(World(faulted_groups=0))
    names = {f"{protocol}-{number}": "billing" for protocol in ("classic", "consumer") for number in range(2)}
    kept.save(
        directory, found._replace(groups=names), of_recording(recording), ["# Replay"], {"history": "x"}
    )
    story.write(directory)
    run = {"scenario": "replay", "began_us": story.world.began_us, "is_finished": True, "processes": 2}
    (directory / "run.json").write_text(json.dumps(run))
    return story


def test_the_report_has_then_and_now_by_the_swarms_record(tmp_path: Path) -> None:
    story = replayed_run(tmp_path)
    outcome = report(tmp_path, more=kept.addition(tmp_path))
    assert "Then and now" in outcome.page.read_text()
    told = json.loads((tmp_path / "report.json").read_text())["replay"]
    assert told["counted"] == "record"
    rows = {row["label"]: row for row in told["parts"][0]["rows"]}
    window_us = story.world.began_us, story.world.began_us + 40 * S
    commits = [call for call in story.history().calls if call.api == "OffsetCommit" and call.is_fine]
    within = sum(window_us[0] <= call.ended_us < window_us[1] for call in commits)
    assert (rows["commits"]["then"], rows["commits"]["now"]) == (40, within)
    assert (rows["joins"]["then"], rows["joins"]["now"]) == (1, 16)
    assert any(
        line.startswith("  joins") and line.split()[1:] == ["1", "16", "16.0"] for line in outcome.lines
    )
    assert any("replayed 4 times" in remark for remark in told["remarks"])


def test_the_targets_own_history_is_believed_rather_than_the_record(tmp_path: Path) -> None:
    """Both histories were counted by a tier, so like is compared with like."""
    replayed_run(tmp_path)
    then = kept.counts_of(kept.read(tmp_path)["then"])
    kept.add_history(tmp_path, {"classic-0": then["billing"]})
    report(tmp_path, more=kept.addition(tmp_path))
    told = json.loads((tmp_path / "report.json").read_text())["replay"]
    assert told["counted"] == "history"
    rows = {row["label"]: row for row in told["parts"][0]["rows"]}
    assert rows["partitions moved"]["now"] == rows["partitions moved"]["then"] == 4


def test_a_run_that_is_no_replay_has_nothing_added(tmp_path: Path) -> None:
    assert kept.addition(tmp_path) is None
