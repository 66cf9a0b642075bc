"""Any number of runs side by side, some repeated: medians, intervals, and which ratios mean something."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.swarm.counted import intervals
from bench.swarm.told.compare import NoReport, compare, html, markdown, show
from bench.swarm.told.comparison import Comparison, Row, Subject, compared
from bench.swarm.told.report import VERSION
from cluster.cli import app
from cluster.cli.tables import Console

QUICK = (10.0, 11.0, 12.0, 10.5, 11.5)
SLOW = (20.0, 21.0, 22.0, 20.5, 21.5)
LONG_NAME = "a-tier-of-three-nodes-with-an-uncommonly-long-name-that-nobody-may-cut"


def report(p99_ms: float, seed: int = 1, rebalances: int = 4, errors: int = 0) -> dict[str, Any]:
    latency = {"p50_ms": p99_ms / 2, "p99_ms": p99_ms, "max_ms": p99_ms * 2}
    return {
        "version": VERSION,
        "run": {"scenario": "steady", "seed": seed, "processes": 1, "plan": {"members": 10}},
        "machine": "here",
        "is_fine": True,
        "figures": {
            "totals": {"rebalances": rebalances, "requests": 1_000},
            "apis": [{"api": "Heartbeat", "requests": 1_000, "latency": latency}],
            "errors": {"NOT_COORDINATOR": errors} if errors else {},
        },
    }


def subject(name: str, p99s_ms: tuple[float, ...], **more: int) -> Subject:
    return Subject(name, tuple(report(p99_ms, seed, **more) for seed, p99_ms in enumerate(p99s_ms)))


def row(comparison: Comparison, heading: str, label: str) -> Row:
    (part,) = (part for part in comparison.parts if part.heading == heading)
    (found,) = (row for row in part.rows if row.label == label)
    return found


def test_a_repeated_run_is_told_by_its_median_and_interval() -> None:
    found = row(compared([subject("quick", QUICK), subject("slow", SLOW)]), "Heartbeat: latency", "p99")
    assert found.cells == (
        "p99",
        "11.0 ms (10.0 ms to 12.0 ms)",
        "21.0 ms (20.0 ms to 22.0 ms)",
        "0.52 (0.48 to 0.57)*",
    )


def test_a_ratio_that_chance_may_explain_has_no_mark() -> None:
    found = row(compared([subject("one", QUICK), subject("other", QUICK[::-1])]), "Heartbeat: latency", "p99")
    (ratio,) = found.ratios
    assert ratio is not None
    assert ratio.value == 1.0
    assert not ratio.differs_from_one
    assert not found.cells[-1].endswith("*")


def test_fewer_than_three_runs_have_a_dash_and_no_mark() -> None:
    comparison = compared([subject("many", QUICK), subject("two", SLOW[:2]), subject("one", SLOW[:1])])
    cells = row(comparison, "Heartbeat: latency", "p99").cells
    assert cells[2:] == ("20.5 ms (-)", "20.0 ms (-)", "0.54 (-)", "0.55 (-)")
    assert comparison.ratio_names == ("A / B", "A / C")
    assert comparison.names[:2] == ("A: many, 5 runs", "B: two, 2 runs")


def test_the_same_runs_always_have_the_same_interval() -> None:
    assert intervals.middle(QUICK) == intervals.middle(QUICK)
    assert intervals.ratio(QUICK, SLOW) == intervals.ratio(QUICK, SLOW)


def test_nothing_is_divided_by_nothing() -> None:
    assert intervals.ratio((1, 2, 3), (0, 0, 0)) is None
    assert intervals.ratio((1, 2, 3), (0, 1, 1)) == intervals.Estimate(2.0)
    assert intervals.middle(()) is None
    assert intervals.spread_percent((0, 0)) is None
    assert intervals.spread_percent((9, 10, 11)) == pytest.approx(20)


def test_counts_stay_counts_and_an_error_that_one_run_had_is_shown_for_all() -> None:
    comparison = compared([subject("a", QUICK), subject("b", QUICK, errors=3), subject("c", QUICK)])
    assert row(comparison, "Membership", "rebalances").cells[1:4] == ("4 (4 to 4)",) * 3
    assert row(comparison, "Errors", "NOT_COORDINATOR").samples == ((0,) * 5, (3,) * 5, (0,) * 5)


def test_too_few_runs_are_said_and_seeds_that_differ_between_subjects() -> None:
    comparison = compared([subject("a", QUICK[:3]), subject("b", SLOW[:3]), subject("c", SLOW[:1])])
    assert "Intervals of 3 runs are too narrow: with 5 a mark says more." in comparison.remarks
    assert "Not the same seed: 0, 1, 2 and 0, 1, 2 and 0." in comparison.remarks


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    """The directories of two single runs and of a run that was repeated three times."""
    for name, p99_ms in (("first", 10.0), ("second", 20.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(report(p99_ms)))
    repeated = tmp_path / LONG_NAME
    for number, p99_ms in enumerate(QUICK[:3], 1):
        (repeated / f"run-{number}").mkdir(parents=True)
        (repeated / f"run-{number}" / "report.json").write_text(json.dumps(report(p99_ms, number)))
    runs = [{"directory": f"run-{number}"} for number in (1, 2, 3)]
    (repeated / "repeat.json").write_text(json.dumps({"runs": runs}))
    return [repeated, tmp_path / "first", tmp_path / "second" / "report.json"]


def test_a_repeats_directory_is_one_subject_and_no_name_is_cut(
    directories: list[Path],
) -> None:
    comparison = compare(directories)
    assert comparison.names == (f"A: {LONG_NAME}, 3 runs", "B: first", "C: second")
    with io.StringIO() as screen:
        show(Console(file=screen), comparison)
        shown = screen.getvalue().splitlines()
    assert shown[:3] == list(comparison.names)
    assert shown[3].split() == ["A", "B", "C", "A", "/", "B", "A", "/", "C"]
    told = row(comparison, "Heartbeat: latency", "p99").cells
    assert [cell for cell in told if not any(cell in line for line in shown)] == []
    assert LONG_NAME in markdown(comparison)
    page = html(comparison)
    assert all(f">{cell}</td>" in page for cell in told)
    assert "3 swarms compared" in page


def test_the_command_takes_any_number_and_says_it_in_json(directories: list[Path]) -> None:
    names = [str(path) for path in directories]
    result = CliRunner().invoke(app, ["swarm", "compare", *names, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    (part,) = (part for part in told["parts"] if part["heading"] == "Heartbeat: latency")
    (p99,) = (row for row in part["rows"] if row["label"] == "p99")
    assert p99["samples"] == [[10.0, 11.0, 12.0], [10.0], [20.0]]
    assert p99["medians"][0] == {"value": 11.0, "low": 10.0, "high": 12.0}
    assert [ratio["differs"] for ratio in p99["ratios"]] == [False, False]


def test_one_run_alone_is_not_compared(directories: list[Path]) -> None:
    with pytest.raises(NoReport, match="1 given: 2 to 26 runs are compared"):
        compare(directories[:1])


def test_runs_of_one_server_are_told_apart() -> None:
    named = [subject(name, QUICK[:1]) for name in ("first", "second", "third")]
    for each in named:
        each.reports[0]["run"]["software"] = "groupd"
    assert compared(named).names == ("A: groupd: first", "B: groupd: second", "C: groupd: third")
