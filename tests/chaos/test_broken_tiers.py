"""A tier with a bug must be caught by a full run: its clients' history alone shows it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench.chaos import scenario as scenarios
from bench.chaos import schedule_file
from bench.chaos.faults import KINDS
from bench.chaos.schedule import Played
from bench.chaos.schedule_file import Schedule
from cluster.child_process import ROOT
from tests.chaos.test_run import TIMEOUT_S, chaos, ended, results

HERE = Path(__file__).parent
BROKEN = HERE / "broken"
CAUGHT_BY = {
    "AnswersBeforeCommit": {"commit lost", "commit went back"},
    "LosesCommits": {"commit lost", "commit went back"},
    "GivesAllTheSame": {"two owners at one epoch"},
    "ForgetsGenerations": {"generation went back", "generation an old one confirmed"},
}
"""The broken promises by which each bug is caught: the judge names at least one of them."""

CUT = "links-cut-leader"
SHRINK_TIMEOUT_S = 1_500
"""How long a shrink may take: about ten runs of a minute each."""

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_a_tier_with_a_bug_is_caught(bug: str, tmp_path: Path) -> None:
    exit_code, said, by_rule = attacked(tmp_path / "out", bug)
    assert exit_code == 1, said
    assert CAUGHT_BY[bug] & by_rule.keys(), json.dumps(by_rule)


def test_the_same_tier_without_a_bug_is_not(tmp_path: Path) -> None:
    """Recovery may not be shown, because members come and go to the end: no group need be quiet then."""
    out = tmp_path / "out"
    exit_code, said, by_rule = attacked(out, "")
    assert by_rule == {}, said
    assert exit_code == {"kept": 0, "not shown": 2}[results(out)["status"]], said
    assert exit_code == 0 or "not shown: recovery, " in said, said


@pytest.mark.chaos
@pytest.mark.timeout(TIMEOUT_S + SHRINK_TIMEOUT_S)
def test_of_six_faults_the_one_that_shows_the_bug_is_found(tmp_path: Path) -> None:
    """What a leader acknowledges while it is cut off from its followers is lost; other faults do no harm."""
    kinds = ("clients-reset", "clients-slow", CUT, "kill-follower", "clients-reset", "clients-slow")
    faults = [
        Played(kind=kind, at_s=9 + 4 * n, for_s=4 if kind == CUT else 1.5, seed=n)
        for n, kind in enumerate(kinds)
    ]
    scenario = scenarios.load(str(BROKEN / "broken.toml"), KINDS)
    schedule_file.write(tmp_path / "six.json", Schedule(scenario=scenario, seed=3, faults=tuple(faults)))
    env = with_bug("AnswersBeforeCommit")
    failing = chaos("run", "--schedule", "six.json", "--out", "six", env=env, cwd=tmp_path)
    said = ended(failing)
    assert failing.returncode == 1, said
    shrinking = chaos("shrink", "six", env=env, cwd=tmp_path)
    said = ended(shrinking, timeout_s=SHRINK_TIMEOUT_S)
    assert shrinking.returncode == 0, said
    found = schedule_file.read(tmp_path / "six" / "shrunk.json", KINDS)
    assert [fault.kind for fault in found.faults] == [CUT], said
    assert "groupd chaos run --schedule six/shrunk.json" in said


def with_bug(bug: str) -> dict[str, str]:
    """The environment of a tier with this bug; empty: of the same one without."""
    paths = [str(BROKEN), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "TIER_WITH_BUG": bug and f"tests.chaos.bugs:{bug}"}


def attacked(out: Path, bug: str) -> tuple[int, str, dict[str, int]]:
    """The run's exit code, what it printed, and the promises that were broken."""
    env = with_bug(bug)
    scenario = str(BROKEN / "broken.toml")
    running = chaos("run", "--scenario", scenario, "--seed", "5", "--out", str(out), env=env)
    said = ended(running)
    return running.returncode, said, results(out)["verdict"]["by_rule"]
