"""JUnit's XML and the Markdown summary say of each promise and threshold what became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import Result
from typer.testing import CliRunner

from bench.swarm.told.cases import STORIES_MAX, STORY_CHARACTERS_MAX, suite
from bench.swarm.told.junit import junit
from bench.swarm.told.summary import summary
from cluster.cli import app
from tests.swarm.histories import RUN_ID, Story, World

WALL_US = 1_700_000_000_000_000

HOSTILE = 'billing ]]> </failure>\x00\x1b[31m \ud800 & "it\'s" | `rm` <img src=x>\n# heading'


def promise(name: str, status: str, because: str, *, is_required: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "says": f"{name}!",
        "status": status,
        "because": because,
        "is_required": is_required,
    }


def report(**changes: Any) -> dict[str, Any]:
    return {
        "status": "broken",
        "run": {"scenario": "steady", "seed": 7, "began_at": "2026-11-23T21:30:00.000Z", "command": HOSTILE},
        "words": ["The run did not end as planned."],
        "verdict": {
            "summary": "broken: 2 violations",
            "promises": [
                promise("commits", "broken", "2 x commit lost"),
                promise("ownership", "kept", "1,000 partitions"),
                promise("service", "not shown", "nobody asked"),
                promise("recovery", "not shown", "no fault", is_required=False),
            ],
            "violations": [{"rule": "commit lost", "group_id": HOSTILE, "text": "x" * 5_000}],
            "by_rule": {"commit lost": 2},
        },
        "thresholds": [
            {"text": "errors < 1%", "status": "broken", "because": "found 3.5%"},
            {"text": "p99(Fetch) < 1s", "status": "not shown", "because": "no Fetch was sent"},
            {"text": "served > 10", "status": "kept", "because": "found 11"},
        ],
        "figures": {"totals": {"duration_s": 60.5}},
        **changes,
    }


def test_junit_fails_what_is_broken_and_passes_nothing_that_was_not_shown() -> None:
    (found,) = ET.fromstring(junit([suite(report())]))
    counted = {name: found.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counted == {"tests": "7", "failures": "2", "errors": "2", "skipped": "1", "time": "60.500"}
    results = {case.get("name"): [child.tag for child in case] for case in found.iter("testcase")}
    assert results == {
        "commits: commits!": ["failure"],
        "ownership: ownership!": [],
        "service: service!": ["error"],
        "recovery: recovery!": ["skipped"],
        "errors < 1%": ["failure"],
        "p99(Fetch) < 1s": ["error"],
        "served > 10": [],
    }
    assert {case.get("classname") for case in found.iter("testcase")} == {
        "groupd.swarm.steady.promises",
        "groupd.swarm.steady.thresholds",
    }


def test_junit_survives_hostile_names_and_tells_a_bounded_story() -> None:
    """A group may be called anything that Kafka takes."""
    (found,) = ET.fromstring(junit([suite(report())]).encode())
    (failure, _) = found.iter("failure")
    text = failure.text or ""
    assert "billing ]]> </failure>\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m" in text
    assert "1 more are in the report." in text
    assert len(text) < STORY_CHARACTERS_MAX + 200


def test_stories_are_few() -> None:
    many = [{"rule": "commit lost", "group_id": "a", "text": str(number)} for number in range(100)]
    verdict = {**report()["verdict"], "violations": many, "by_rule": {"commit lost": 2_000}}
    case = suite(report(verdict=verdict)).cases[0]
    assert (len(case.stories), case.untold) == (STORIES_MAX, 2_000 - STORIES_MAX)


def test_summary_is_one_table_whatever_names_hold() -> None:
    text = summary(suite(report(), lines=["1,234 requests"]))
    lines = text.splitlines()
    assert lines[0] == "### \N{CROSS MARK} groupd swarm steady: broken"
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 1 + 7
    assert "* 1,234 requests" in lines
    (story,) = [line for line in lines if line.startswith("* commit lost")]
    assert "<img" not in story.replace("\\<", "")
    assert "# heading" not in lines
    assert text.endswith("</details>\n\n")


def test_chaos_run_is_a_suite_like_a_swarm() -> None:
    run = {"scenario": {"name": "tour"}, "seed": 1, "lasted_s": 300.0, "words": []}
    promises = [promise("commits", "kept", "all"), promise("faults", "broken", "node 2 is gone")]
    verdict = {"promises": promises, "violations": [], "by_rule": {"did not come back": 1}}
    chaos = {"status": "broken", "summary": "5 processes killed", "run": run, "verdict": verdict}
    (found,) = ET.fromstring(junit([suite(chaos)]))
    assert (found.get("name"), found.get("failures"), found.get("time")) == (
        "groupd chaos tour",
        "1",
        "300.000",
    )
    assert "node 2 is gone" in summary(suite(chaos))


def run_in(directory: Path, **changes: Any) -> None:
    """A run in which two groups had no coordinator for two seconds, at 40 s."""
    story = Story(World(members=3, seconds=50))
    story.write(directory)
    run = {"run_id": RUN_ID, "scenario": "steady", "began_us": story.world.began_us, "is_finished": True}
    (directory / "run.json").write_text(json.dumps({**run, "wall_us": WALL_US, "words": [], **changes}))


def judged(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["swarm", "report", *arguments])


def found(directory: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return results


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A run without thresholds, and the exit code of its report."""
    directory = tmp_path_factory.mktemp("bare")
    run_in(directory)
    return directory, judged(str(directory)).exit_code


@pytest.mark.parametrize(
    ("threshold", "code", "status"),
    [
        ("max(gap) < 3s", 0, "kept"),
        ("max(gap) < 1s", 1, "broken"),
        ("p99(FindCoordinator) < 1s", 2, "not shown"),
    ],
)
def test_threshold_makes_the_exit_code(
    bare: tuple[Path, int], threshold: str, code: int, status: str
) -> None:
    directory, code_without = bare
    result = judged(str(directory), "--threshold", threshold)
    (told,) = found(directory)["thresholds"]
    assert (told["text"], told["status"]) == (threshold, status)
    assert result.exit_code == (code or code_without), result.output
    assert f"{threshold}  {status}" in " ".join(result.output.split(" ")).replace("   ", "  ")
    assert threshold.replace("<", "&lt;") in (directory / "report.html").read_text()


def test_thresholds_of_a_run_are_judged_again_and_a_flag_replaces_one(tmp_path: Path) -> None:
    run_in(tmp_path, thresholds=["max(gap) < 1s", "served > 10"])
    assert judged(str(tmp_path)).exit_code == 1
    judged(str(tmp_path), "--threshold", "max(gap) < 5s")
    assert [(each["text"], each["status"]) for each in found(tmp_path)["thresholds"]] == [
        ("max(gap) < 5s", "kept"),
        ("served > 10", "kept"),
    ]


def test_report_leaves_junit_and_appends_to_the_summary_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in(tmp_path, thresholds=["max(gap) < 1s"])
    step = tmp_path / "step.md"
    step.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    assert judged(str(tmp_path), "--junit", str(tmp_path / "swarm.xml")).exit_code == 1
    (told,) = ET.parse(tmp_path / "swarm.xml").getroot()
    assert told.get("failures") == "1"
    assert step.read_text().startswith("before\n### ")
    assert "max\\(gap\\)" in step.read_text() or "max(gap)" in step.read_text()


def test_wrong_flag_is_told_before_anything_is_judged(bare: tuple[Path, int], tmp_path: Path) -> None:
    (tmp_path / "marks").write_text("1700000000,off\nsoon,on\n")
    for arguments, words in (
        (("--threshold", "p99(Hearbeat) < 1s"), "did you mean Heartbeat?"),
        (("--junit", str(tmp_path / "none" / "x.xml")), "there is no directory"),
        (("--mark", str(tmp_path / "marks")), f"{tmp_path / 'marks'}:2: 'soon' is no time"),
    ):
        result = judged(str(bare[0]), *arguments)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), result.output
        assert words in result.stderr


def test_marks_are_kept_with_the_run_and_told_on_every_report(tmp_path: Path) -> None:
    run_in(tmp_path)
    began_s = (WALL_US + World().began_us) / 1e6
    (tmp_path / "faults.txt").write_text(f"{began_s + 39},{began_s + 43},pulled <the> plug\n")
    judged(str(tmp_path), "--mark", str(tmp_path / "faults.txt"))
    result = judged(str(tmp_path))
    assert "mark +39.000 s (22:14:04.000 UTC) pulled <the> plug: 2 groups" in result.output
    assert "pulled &lt;the&gt; plug" in (tmp_path / "report.html").read_text()
    (mark,) = found(tmp_path)["marks"]
    assert (mark["began_at"], mark["groups"]) == ("2023-11-14T22:14:04.000Z", 2)


def test_figures_of_a_run_are_told_by_the_wall_clock(bare: tuple[Path, int]) -> None:
    """A story's time was that of a clock which began when the machine did."""
    page = (bare[0] / "report.html").read_text()
    assert "+40." in page
    assert "22:14:05" in page
    seconds = (bare[0] / "seconds.csv").read_text().splitlines()
    assert len(seconds) == 1 + 50
    assert seconds[1].startswith("2023-11-14T22:13:25.000Z,0,")
