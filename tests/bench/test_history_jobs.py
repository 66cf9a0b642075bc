"""The comparison of Spark with DuckDB: what it needs, and that it runs (issue 8)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.history.jobs import Ratio, Run, ratios


def test_without_duckdb_one_line_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    ran = CliRunner().invoke(app, ["history-jobs", "--folder", str(tmp_path / "kept")])
    assert ran.exit_code == 1
    assert ran.stderr == "groupd: duckdb is not installed: pip install duckdb\n"
    assert not (tmp_path / "kept").exists()


def test_cores_that_are_no_numbers_are_refused() -> None:
    ran = CliRunner().invoke(app, ["history-jobs", "--cores", "all"])
    assert (ran.exit_code, ran.stderr) == (
        2,
        "groupd: --cores all: whole numbers such as 1,2 are expected\n",
    )


def test_ratios_are_those_of_runs_that_followed_each_other() -> None:
    """The machine became three times as slow after the first pair."""
    runs = [
        Run(engine, 2, seconds, 0.0, seconds * cpu, mib)
        for slower in (1, 3, 3)
        for engine, seconds, cpu, mib in (
            ("duckdb", 2.0 * slower, 1.0, 500),
            ("spark", 5.0 * slower, 2.0, 750),
        )
    ]
    assert ratios(runs) == [Ratio(2, 2.5, 5.0, 1.5)]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_both_engines_make_the_same_tables() -> None:
    pytest.importorskip("duckdb")
    ran = CliRunner().invoke(app, ["history-jobs", "--events", "20000", "--cores", "1", "--json"])
    assert ran.exit_code == 0, ran.stderr
    measured = json.loads(ran.stdout)
    assert [(run["engine"], run["cores"]) for run in measured["runs"]] == [("duckdb", 1), ("spark", 1)]
    assert [ratio["cores"] for ratio in measured["ratios"]] == [1]
