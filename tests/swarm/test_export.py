"""A run's record as tables: every row and field of it, with the wall clock, for readers of any kind."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.swarm.counted import record_tables
from bench.swarm.counted.record_tables import CALLS, FAULTS, GONE, OFFSETS, TOPICS
from bench.swarm.told import export
from bench.swarm.told.report import report
from cluster.cli import app
from storage.history.call_files import read_history
from storage.history.calls import Call, Fault, Gone, History, Offset, Topic
from tests.swarm.test_ci_output import WALL_US, run_in

duckdb = pytest.importorskip("duckdb")
RECORD = Path(record_tables.__file__).parents[1] / "RECORD.md"
MARK = "<!-- tables -->\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's directory with `tables` beside it, as Parquet."""
    directory = tmp_path_factory.mktemp("run")
    run_in(directory)
    report(directory)
    done = CliRunner().invoke(
        app, ["swarm", "export", str(directory), "--parquet", str(directory / "tables")]
    )
    assert done.exit_code == 0, done.output
    return directory


@pytest.fixture(scope="module")
def history(run: Path) -> History:
    return read_history(run)


def rows(run: Path, question: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(question.replace("$", str(run / "tables"))).fetchall()


def test_every_row_of_the_record_is_in_a_table(run: Path, history: History) -> None:
    counts = {
        name: rows(run, f"SELECT count(*) FROM '$/{name}.parquet'")[0][0] for name in ("calls", "offsets")
    }
    assert counts == {
        "calls": len(history.calls),
        "offsets": sum(len(call.offsets) for call in history.calls),
    }
    assert rows(run, "SELECT kind, target FROM '$/faults.parquet'") == [
        (f.kind, f.target) for f in history.faults
    ]
    assert rows(run, "SELECT count(*), min(at_utc)::VARCHAR FROM '$/seconds.parquet'") == [
        (50, "2023-11-14 22:13:25")
    ]


def test_rows_have_the_wall_clock_and_their_own(run: Path, history: History) -> None:
    found = rows(
        run, "SELECT sent_us, epoch_us(sent_at), took_us FROM '$/calls.parquet' ORDER BY sent_us LIMIT 1"
    )
    first = history.calls[0]
    assert found == [(first.sent_us, first.sent_us + WALL_US, first.ended_us - first.sent_us)]


def test_offsets_join_their_requests(run: Path, history: History) -> None:
    commits = sum(len(call.offsets) for call in history.calls if call.api == "OffsetCommit")
    question = """SELECT count(*) FROM '$/calls.parquet' c JOIN '$/offsets.parquet' o USING (call)
        WHERE o.api = 'OffsetCommit' AND c.client = o.client"""
    assert rows(run, question) == [(commits,)]


def test_csv_holds_the_same_rows(run: Path, history: History) -> None:
    done = export.export(run, run / "as-csv", export.CSV)
    with (run / "as-csv" / "calls.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == done.rows["calls"] == len(history.calls)
    by_call = {(row["client"], int(row["sent_us"])): row for row in found}
    told = next(call for call in history.calls if call.assigned)
    row = by_call[told.client, told.sent_us]
    assert json.loads(row["assigned"]) == [
        {"topic": topic, "partitions": list(numbers)} for topic, numbers in told.assigned or ()
    ]
    assert row["sent_at"].startswith("2023-11-14T22:1")


def test_record_that_was_cut_short_is_exported_up_to_the_cut(tmp_path: Path) -> None:
    run_in(tmp_path)
    path = tmp_path / "worker-0.calls"
    path.write_bytes(path.read_bytes()[:-7])
    done = export.export(tmp_path, tmp_path / "out", export.PARQUET)
    assert done.cut_bytes > 0
    assert done.rows["calls"] >= len(read_history(tmp_path).calls) > 0


def test_every_field_of_the_record_is_a_column() -> None:
    """A field that is added to the rows has to be given a column and a meaning here."""
    for table, row_class, elsewhere in (
        (CALLS, Call, {"offsets"}),
        (OFFSETS, Offset, set()),
        (GONE, Gone, set()),
        (FAULTS, Fault, set()),
        (TOPICS, Topic, set()),
    ):
        fields: set[str] = set(row_class._fields)  # type: ignore[attr-defined]
        names = {column.name for column in table.columns}
        assert fields - elsewhere <= names, table.name


def test_the_documentation_has_every_column() -> None:
    text = RECORD.read_text()
    assert text.partition(MARK)[2].strip() == record_tables.markdown().strip(), "tables of RECORD.md"


def test_the_example_of_the_documentation_runs(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", RECORD.read_text(), re.DOTALL)
    monkeypatch.chdir(run)
    names: dict[str, Any] = {}
    exec(example, names)
    assert len(names["slowest"]) == 10
    assert {error for _, error, _ in names["refused"]} == {
        "MEMBER_ID_REQUIRED",
        "REBALANCE_IN_PROGRESS",
        "NOT_COORDINATOR",
    }


def test_export_without_a_place_says_what_to_give(run: Path) -> None:
    result = CliRunner().invoke(app, ["swarm", "export", str(run)])
    assert (result.exit_code, result.stderr) == (2, "groupd: --parquet OUT or --csv OUT says where to\n")
