"""The command as a user runs it: short on a throw-away tier, and what it says to bad input."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.chaos.targets.target import until
from cluster import child_process
from cluster.child_process import ROOT
from cluster.cli import app

TIMEOUT_S = 300
"""The scenario takes less than a minute; a machine that has something else to do starts tiers slowly."""


def chaos(*arguments: str, env: dict[str, str] | None = None, cwd: Path = ROOT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        child_process.python("cluster.cli", "chaos", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**child_process.environment(), **(env or {})},
        start_new_session=True,
    )


def ended(running: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> str:
    """Wait until the command ends, and return what it printed."""
    try:
        return running.communicate(timeout=timeout_s)[0]
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            running.communicate(timeout=TIMEOUT_S)


def results(directory: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return told


@pytest.mark.ray
@pytest.mark.timeout(TIMEOUT_S)
def test_what_was_acknowledged_outlives_a_minute_of_faults(tmp_path: Path) -> None:
    """Kills, freezes, cut links and resets under a swarm of both protocols: no promise is broken, and the
    report says what each fault did. The user is in a directory of his own, and names a new one from there: it
    once worked from the source tree alone, and wrote into it."""
    out = tmp_path / "out"
    running = chaos("run", "--scenario", "short", "--seed", "2", "--out", "out", cwd=tmp_path)
    said = ended(running)
    assert running.returncode == 0, said
    told = results(out)
    assert told["is_fine"]
    assert told["run"]["is_finished"]
    assert told["run"]["killed"] >= 1
    judged = told["verdict"]["judged"]
    assert min(judged[what] for what in ("commits", "reads", "assignments", "holds", "recovered groups")) > 0
    kinds = {row["kind"] for row in told["availability"]}
    assert "kill-leader" in kinds, said
    page = (out / "report.html").read_text()
    assert "<b>Kept</b>" in page
    assert "<svg" in page
    assert "Report: " in said


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_an_interrupted_run_keeps_what_it_saw_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    running = chaos("run", "--scenario", "short", "--kills", "4", "--seed", "3", "--out", str(out))
    state = out / "chaos.json"

    def has_begun() -> bool:
        assert running.poll() is None
        return state.exists() and json.loads(state.read_text())["steps"] >= 1

    until(has_begun, "a fault has been done", TIMEOUT_S)
    running.send_signal(signal.SIGINT)
    said = ended(running)
    first = results(out)
    assert running.returncode == {"kept": 0, "broken": 1, "not shown": 2}[first["status"]], said
    assert first["status"] != "broken", said
    assert "it goes on with: groupd chaos run --resume" in said
    assert not first["run"]["is_finished"]
    assert first["verdict"]["judged"]["requests"] > 0
    running = chaos("run", "--resume", "out", cwd=tmp_path)
    said = ended(running)
    whole = results(out)
    # The part that was interrupted in a fault cannot show that the groups recovered from it; the other does.
    assert "in 2 of 2 parts" in said
    assert re.search(r"not shown +in 2 of 2 parts", said) is None, said
    assert whole["status"] != "broken", said
    assert running.returncode == {"kept": 0, "not shown": 2}[whole["status"]], said
    assert whole["run"]["is_finished"]
    assert whole["run"]["parts"] == 2
    assert whole["run"]["killed"] >= 4
    assert whole["run"]["steps"] > first["run"]["steps"]


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["chaos", *arguments])
    assert result.exit_code == 2, result.output
    return result.output


def test_bad_input_is_told_before_anything_starts(tmp_path: Path) -> None:
    assert "did you mean tour?" in refused("run", "--scenario", "tuor")
    assert "holds no chaos run" in refused("run", "--resume", str(tmp_path))
    assert "holds no chaos run" in refused("report", str(tmp_path))
    (tmp_path / "something").touch()
    assert "a new or an empty directory" in refused("run", "--out", str(tmp_path))


def test_scenarios_and_kinds_of_faults_are_listed() -> None:
    said = CliRunner().invoke(app, ["chaos", "list"]).output
    assert "tour" in said
    assert "kill-leader" in said
    told = json.loads(CliRunner().invoke(app, ["chaos", "list", "--json"]).output)
    assert {"short", "tour", "long"} <= {each["name"] for each in told["scenarios"]}
    assert {"name", "about", "reach", "needs"} == set(told["faults"][0])
