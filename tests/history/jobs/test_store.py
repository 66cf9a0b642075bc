"""Where the tables are: beside the history, not in it."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pyarrow.dataset as ds
import pytest

from storage.history.generator.plan import Plan
from storage.history.generator.write import write
from storage.history.jobs.embedded import embedded
from storage.history.jobs.engine import Engine
from storage.history.jobs.run import run
from storage.history.jobs.seen import look
from storage.history.jobs.store import Store, tables_url
from storage.history.period import of_days
from storage.history.segments.folder import Folder


def quiet(_: str) -> None:
    """Drop the lines about progress."""


@pytest.mark.parametrize(
    ("history", "tables"),
    [
        ("/data/history", "/data/history-tables"),
        ("/data/history/", "/data/history-tables"),
        ("s3://bucket/tier", "s3://bucket/tier-tables"),
        ("s3://bucket", "s3://bucket/_tables"),
    ],
)
def test_tables_are_beside_the_history(history: str, tables: str) -> None:
    """The tables stand beside the history; if the history is a whole bucket, they cannot."""
    assert tables_url(history) == tables


def test_who_reads_the_whole_history_finds_events_alone(folder: Folder, planned: Plan) -> None:
    """Tables that lay among them broke readers of `history/**`."""
    day = planned.spec.first_date
    with embedded(folder.url) as engine:
        run(engine, folder, of_days(day, day), say=quiet)
        everything = f"read_parquet('{folder.url}/**/*.parquet', hive_partitioning=false)"
        [found] = engine.rows(f"SELECT count(*) AS rows FROM {everything}")
    assert found["rows"] == look(folder).rows == ds.dataset(folder.url).count_rows()


def test_old_tables_are_moved_out_of_the_history(folder: Folder, engine: Engine, planned: Plan) -> None:
    """A line says so; and what they lack of today's columns is null."""
    day = planned.spec.first_date
    run(engine, folder, of_days(day, day), say=quiet)
    inside = Path(folder.url, "_tables")
    Path(f"{folder.url}-tables").rename(inside)
    [groups] = Path(inside, "groups", f"date={day}").glob("*.parquet")
    _without(groups, "served_ms")
    said: list[str] = []
    store = Store(folder, said.append)
    assert said == [f"The tables were moved from {inside} to {folder.url}-tables"]
    assert not inside.exists()
    store.open(engine)
    found = engine.rows("SELECT date, served_ms, rebalances FROM groups")
    assert {(row["date"], row["served_ms"]) for row in found} == {(day, None)}
    assert sum(row["rebalances"] for row in found) > 0


def test_tables_that_are_in_both_places_are_not_mixed(folder: Folder) -> None:
    Path(folder.url, "_tables").mkdir()
    Path(f"{folder.url}-tables").mkdir()
    said: list[str] = []
    Store(folder, said.append)
    assert said == [
        f"{folder.url}/_tables is read no longer, the tables are in {folder.url}-tables: remove it"
    ]


def test_any_file_system_that_fsspec_knows_will_do(planned: Plan) -> None:
    """The memory file system stands for an object store, of which DuckDB knows nothing by itself."""
    folder = Folder("memory://tier/history")
    write(planned, folder)
    day = planned.spec.first_date
    try:
        with embedded(folder.url) as engine:
            run(engine, folder, of_days(day, day), say=quiet)
            run(engine, folder, of_days(day, day), say=quiet)
            Store(folder).open(engine)
            dates = engine.rows("SELECT DISTINCT date FROM rebalances")
        assert dates == [{"date": day}]
    finally:
        fsspec.filesystem("memory").rm("/tier", recursive=True)


def _without(path: Path, column: str) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(path, partitioning=None).drop_columns([column])
    pq.write_table(table, path)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Spark's, of what was there before
