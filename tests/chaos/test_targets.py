"""What is attacked, a tier of ours or Kafka: which faults each can have, and what is told of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.chaos import scenario as scenarios
from bench.chaos import schedule_file
from bench.chaos.faults import KINDS
from bench.chaos.outcome import Outcome
from bench.chaos.report import with_faults
from bench.chaos.run import available
from bench.chaos.schedule import Played
from bench.chaos.schedule_file import Schedule
from bench.chaos.state import State, read
from bench.chaos.table import Row
from bench.chaos.targets.kafka_site import settings_of
from bench.peers import kafka_nodes
from bench.swarm.counted.columns import spread
from bench.swarm.planning.scenario_errors import BadScenario
from cluster.cli import app
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN
from storage.history.judge.verdict import Verdict, combined
from tests.swarm.histories import Story, World

OF_KAFKA = frozenset({"proxy"})
OF_A_TIER = frozenset({"replicas", "own", "proxy", "injection"})
CALM = combined([])._replace(promises=())
"""A report in which no promise was broken."""


def state(**fields: object) -> State:
    return State.model_validate({"scenario": scenarios.load("both", KINDS), "seed": 1, **fields})


def row(kind: str, times: int = 1) -> Row:
    return Row(kind, times, 5, 0, 0, (), spread([]), 0, 0, 0)


def judged(run: State, *rows: Row) -> Verdict:
    return with_faults(CALM, run, rows)


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["chaos", "run", *arguments])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_the_scenario_for_both_has_only_faults_that_both_can_have() -> None:
    faults = scenarios.load("both", KINDS).faults
    assert faults is not None
    wanted = {kind for kind, times in faults.items() if times}
    assert wanted <= available(OF_KAFKA).keys() & available(OF_A_TIER).keys()
    assert {"kill-leader", "term-leader", "freeze-leader", "rolling-restart", "clients-reset"} <= wanted


def test_kafka_has_no_faults_that_need_replicas() -> None:
    kinds = available(OF_KAFKA)
    assert not any(name.startswith(("links-", "disk-", "ray-")) for name in kinds)
    assert not {"kill-majority", "leaders-move", "journal-damaged", "clock-jump", "freeze-gcs"} & kinds.keys()
    assert {"kill-follower", "kill-broker", "kill-node", "kill-tier"} <= kinds.keys()


def test_brokers_are_hit_only_where_a_tier_stands_in_front_of_its_own() -> None:
    faults = scenarios.load("attached", KINDS).faults
    assert faults is not None
    wanted = {kind for kind, times in faults.items() if times}
    assert wanted <= available(OF_A_TIER | {"upstream"}).keys()
    assert {"kill-kafka-broker", "kafka-rolling-restart", "kill-leader", "kill-node"} <= wanted
    for has in (OF_A_TIER, OF_KAFKA):
        assert not any("kafka" in kind for kind in available(has))


def test_both_targets_get_the_groups_settings_of_the_scenario() -> None:
    flags = ("--set", "group.consumer.heartbeat.interval.ms=1000", "--partitions", "2", "--set", "raft.x=1")
    assert settings_of(flags) == {"group.consumer.heartbeat.interval.ms": "1000"}


def test_without_java_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kafka_nodes.shutil, "which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    for asked in (("--target", "kafka"), ("--scenario", "attached")):
        assert "Kafka cannot be started here: java not found" in refused(*asked)
    assert list(tmp_path.iterdir()) == []
    told = refused("--target", "kafka", "--data-dir", str(tmp_path))
    assert "leave --data-dir out" in told


def test_a_relative_data_directory_is_found_from_anywhere_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`--resume` and `shrink` find the directory, and a run that could not begin is reported as not shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    refused("--data-dir", "data", "--out", "out")
    assert read(tmp_path / "out").data_dir == tmp_path / "data"
    assert json.loads((tmp_path / "out" / "report.json").read_text())["status"] == NOT_SHOWN


def test_a_run_in_which_no_fault_hit_anybody_shows_nothing() -> None:
    """Once the report of such a run was green."""
    found = judged(state())
    assert (found.status, found.because) == (NOT_SHOWN, "faults, no fault ever hit anybody")
    assert judged(state(), row("kill-leader"), row("all faults")).status == KEPT


def test_a_target_that_does_not_come_back_broke_what_it_promises() -> None:
    run = state(target="kafka", unmended=["part 1: not whole after 120 s: broker 2 does not run"])
    found = judged(run, row("kill-leader"), row("all faults"))
    assert found.status == BROKEN
    assert "1 violations (1 x did not come back)" in found.because
    assert found.promises[-1].says == "After each fault Kafka comes back whole."


def test_faults_that_never_came_are_told_by_name(tmp_path: Path) -> None:
    run = state(
        kinds=["kill-leader", "clients-reset"], left_out=["links-slow"], missed=["freeze-leader at 12 s"]
    )
    rows = [row("kill-leader"), row("all faults")]
    remarks = Outcome(run, judged(run, *rows), rows, tmp_path, 1).remarks
    assert remarks == (
        "Left out, the tier cannot have them: links-slow.",
        "Never came, for lack of time or of anybody to hit: clients-reset.",
        "Found nobody to hit: freeze-leader at 12 s.",
    )


def test_a_report_ends_with_its_verdict_once(tmp_path: Path) -> None:
    """Once the verdict was told twice: as the status of all promises, and in a summary."""
    run = state(parts=1, steps=1, kinds=["kill-leader"], lasted_s=90.0, is_finished=True)
    run.write(tmp_path)
    story = Story(World())
    run.part(tmp_path, 1).mkdir()
    story.write(run.part(tmp_path, 1))
    about = {"scenario": "mixed", "began_us": story.world.began_us, "is_finished": True}
    (run.part(tmp_path, 1) / "run.json").write_text(json.dumps(about))
    said = CliRunner().invoke(app, ["chaos", "report", str(tmp_path)]).output.splitlines()
    status = results_of(tmp_path)["status"]
    assert len([line for line in said if f"{status}: " in line]) == 1, said
    assert [line.split(":")[0] for line in said[-2:]] == [status, "Report"]


def results_of(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return found


def schedule(path: Path, *faults: Played) -> Path:
    schedule_file.write(path, Schedule(scenario=scenarios.load("short", KINDS), seed=3, faults=faults))
    return path


def test_a_schedule_is_read_as_it_was_written(tmp_path: Path) -> None:
    later, sooner = (Played(kind="kill-leader", at_s=at_s, for_s=1, seed=1) for at_s in (20, 10))
    found = schedule_file.read(schedule(tmp_path / "s.json", later, sooner), KINDS)
    assert found.faults == (sooner, later)
    assert found.seed == 3


def test_a_schedule_that_cannot_be_played_is_refused_in_a_line(tmp_path: Path) -> None:
    """An empty one, too: a run without faults would be green."""
    assert "the list is empty" in refused("--schedule", str(schedule(tmp_path / "empty.json")))
    typo = schedule(tmp_path / "typo.json", Played(kind="kill-laeder", at_s=1, for_s=1, seed=1))
    assert "did you mean kill-leader" in refused("--schedule", str(typo))
    fine = schedule(tmp_path / "fine.json", Played(kind="kill-leader", at_s=1, for_s=1, seed=1))
    assert "leave --scenario, --minutes, --kills and --seed out" in refused(
        "--schedule", str(fine), "--seed", "1"
    )
    broken = json.loads(fine.read_text())
    broken["faults"][0]["at_s"] = "soon"
    fine.write_text(json.dumps(broken))
    with pytest.raises(BadScenario, match=r"is no schedule: faults\.0\.at_s"):
        schedule_file.read(fine, KINDS)


def test_a_fixed_list_is_done_when_all_of_it_came(tmp_path: Path) -> None:
    faults = [Played(kind="kill-leader", at_s=at_s, for_s=2, seed=1) for at_s in (10, 20)]
    run = state(fixed=faults)
    run.write(tmp_path)
    assert read(tmp_path) == run
    assert not run.is_done()
    assert run.rest_s >= 20 + 2 + 2 + run.scenario.recovery_s
    run = run.model_copy(update={"steps": 1, "parts": 1})
    assert (run.is_done(), run.share) == (False, 0.5)
    run = run.model_copy(update={"steps": 2})
    assert (run.is_done(), run.share) == (True, 1)
