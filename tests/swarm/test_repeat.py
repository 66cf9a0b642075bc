"""`groupd swarm repeat`: several runs, what they come to together, and what is kept when one goes wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bench.swarm.runs import repeated
from bench.swarm.runs.repeats import Repeat
from bench.swarm.told.compare import compare
from cluster.cli import app
from tests.swarm.test_compare_many import report

KEPT, BROKEN, NOT_SHOWN = ("kept", 0), ("broken", 1), ("not shown", 2)
GIVEN = {"scenario": "mine/steady.toml", "members": 10}


class Runs:
    """Stands where `groupd swarm run` does: run after run it leaves a report of its own."""

    def __init__(self, *ends: tuple[str, int] | None, words: Sequence[str] = ()) -> None:
        self.asked: list[dict[str, Any]] = []
        self._ends = iter(ends)
        self._words = list(words)

    def __call__(self, **flags: Any) -> None:
        self.asked.append(flags)
        end = next(self._ends)
        if end is None:
            raise typer.Exit(2)
        status, exit_code = end
        told = report(10.0 * len(self.asked), flags["seed"])
        told |= {
            "status": status,
            "verdict": {"status": status, "summary": f"{status}: as told"},
            "thresholds": [{"text": "errors <= 0", "status": status, "because": "found 2"}],
            "words": self._words,
        }
        flags["out"].mkdir(parents=True)
        (flags["out"] / "report.json").write_text(json.dumps(told))
        if exit_code:
            raise typer.Exit(exit_code)


def repeat(runs: Runs, directory: Path, times: int = 3) -> Repeat:
    seeds = list(range(7, 7 + times))
    return repeated.repeated(runs, GIVEN, directory, seeds, quiet=True)


def test_every_figure_has_its_median_least_most_and_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(KEPT, NOT_SHOWN, KEPT)
    found = repeat(runs, tmp_path)
    assert [(asked["seed"], asked["out"].name, asked["members"]) for asked in runs.asked] == [
        (7, "run-1", 10),
        (8, "run-2", 10),
        (9, "run-3", 10),
    ]
    repeated.show(found, tmp_path)
    shown = capsys.readouterr().out.splitlines()
    assert "p99 20.0 ms 10.0 ms 30.0 ms 100 %" in [" ".join(line.split()) for line in shown]
    assert "3 of 3 runs: 2 kept, 1 not shown" in shown
    assert "run-2 8 not shown as told; errors <= 0: found 2" in [" ".join(line.split()) for line in shown]
    told = json.loads((tmp_path / "repeat.json").read_text())
    (part,) = (part for part in told["figures"] if part["heading"] == "Heartbeat: latency")
    (p99,) = (row for row in part["rows"] if row["label"] == "p99")
    assert (p99["values"], p99["median"], p99["least"], p99["most"]) == ([10.0, 20.0, 30.0], 20.0, 10.0, 30.0)
    assert p99["spread_percent"] == 100
    page = (tmp_path / "repeat.html").read_text()
    assert ">100 %</td>" in page
    assert ">as told; errors &lt;= 0: found 2<" in page


@pytest.mark.parametrize(
    ("ends", "exit_code"),
    [
        ((KEPT, KEPT, KEPT), 0),
        ((KEPT, NOT_SHOWN, KEPT), 2),
        ((NOT_SHOWN, BROKEN, KEPT), 1),
        ((KEPT, None), 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_run(
    tmp_path: Path, ends: tuple[tuple[str, int] | None, ...], exit_code: int
) -> None:
    assert repeated.exit_code(repeat(Runs(*ends), tmp_path)) == exit_code


def test_a_run_that_was_stopped_does_not_count_and_ends_the_runs(tmp_path: Path) -> None:
    repeat(Runs(KEPT, KEPT, KEPT), tmp_path / "whole")
    found = repeat(Runs(KEPT, words=["stopped after 3 s"]), tmp_path / "stopped")
    assert found.runs == ()
    assert found.words == ("run 1 was stopped before its end: it does not count",)
    assert repeated.exit_code(found) == 2


def test_a_run_whose_judging_was_cut_short_does_not_count(tmp_path: Path) -> None:
    """Ctrl-C after its report was written: the exit code says something else than the report."""
    found = repeat(Runs(KEPT, ("kept", 2), KEPT), tmp_path)
    assert [run.name for run in found.runs] == ["run-1"]


def test_what_was_finished_is_kept_when_a_later_run_cannot_begin(tmp_path: Path) -> None:
    found = repeat(Runs(KEPT, KEPT, None), tmp_path)
    assert [run.name for run in found.runs] == ["run-1", "run-2"]
    told = json.loads((tmp_path / "repeat.json").read_text())
    assert told["words"] == ["run 3 could not run, or was not judged: those after it were not begun"]
    assert compare([tmp_path, tmp_path / "run-1"]).names[0].endswith(", 2 runs")


def test_a_first_run_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit):
        repeat(Runs(None), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command_has_the_flags_of_run_and_tells_their_errors(tmp_path: Path) -> None:
    def refused(*flags: str) -> str:
        result = CliRunner().invoke(app, ["swarm", "repeat", *flags])
        assert result.exit_code == 2, result.output
        return result.stderr

    out = tmp_path / "new"
    assert "did you mean steady?" in refused("stedy", "--out", str(out))
    assert "one of --minutes and --seconds" in refused("--minutes", "1", "--seconds", "30", "--out", str(out))
    assert "No such option: --no-report" in refused("--no-report")
    assert not out.exists()
    (tmp_path / "repeat.json").write_text("{}")
    assert "a new directory is needed" in refused("steady", "--out", str(tmp_path))
