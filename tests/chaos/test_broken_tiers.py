"""A tier with a bug must be caught by a full run: its clients' history alone shows it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

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
"""Any of these; others may come with them."""

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_a_tier_with_a_bug_is_caught(bug: str, tmp_path: Path) -> None:
    exit_code, said, by_rule = attacked(tmp_path / "out", bug)
    assert exit_code == 1, said
    assert CAUGHT_BY[bug] & by_rule.keys(), json.dumps(by_rule)


def test_the_same_tier_without_a_bug_is_not(tmp_path: Path) -> None:
    exit_code, said, by_rule = attacked(tmp_path / "out", "")
    assert (exit_code, by_rule) == (0, {}), said


def attacked(out: Path, bug: str) -> tuple[int, str, dict[str, int]]:
    """The run's exit code, what it printed, and the promises that were broken."""
    paths = [str(BROKEN), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {"PYTHONPATH": os.pathsep.join(paths), "TIER_WITH_BUG": bug and f"tests.chaos.bugs:{bug}"}
    scenario = str(BROKEN / "broken.toml")
    running = chaos("run", "--scenario", scenario, "--seed", "5", "--out", str(out), env=env)
    said = ended(running)
    return running.returncode, said, results(out)["verdict"]["by_rule"]
