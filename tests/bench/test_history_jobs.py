"""The comparison of Spark with DuckDB: what it needs, and that it runs (issue 8)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app


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


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_both_engines_make_the_same_tables() -> None:
    pytest.importorskip("duckdb")
    ran = CliRunner().invoke(app, ["history-jobs", "--events", "20000", "--cores", "1", "--json"])
    assert ran.exit_code == 0, ran.stderr
    assert [(run["engine"], run["cores"]) for run in json.loads(ran.stdout)["runs"]] == [
        ("duckdb", 1),
        ("spark", 1),
    ]
