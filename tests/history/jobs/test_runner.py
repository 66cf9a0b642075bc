"""Runs leave the same tables however often and in whatever order; bad files are named, the rest is read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from storage.history.generator.plan import Plan
from storage.history.jobs.engine import ALL, Engine
from storage.history.jobs.on_spark import OnSpark
from storage.history.jobs.run import run
from storage.history.jobs.seen import NothingRecorded, look
from storage.history.jobs.session import SparkMissing, require_connector
from storage.history.jobs.store import Store
from storage.history.jobs.stream import follow
from storage.history.jobs.tables import MADE
from storage.history.period import Period, of_days
from storage.history.segments.folder import Folder


def whole(planned: Plan) -> Period:
    spec = planned.spec
    return of_days(spec.first_date, spec.date(spec.first_ms + spec.days * 86_400_000 - 1))


def rows(engine: Engine, folder: Folder) -> dict[str, list[str]]:
    """Return the rows of every table as sorted text, to be compared."""
    Store(folder).open(engine)
    return {table.name: sorted(map(str, engine.rows(f"SELECT * FROM {table.name}"))) for table in MADE}


def count(engine: Engine, folder: Folder) -> int:
    """Count the events."""
    engine.read(folder, look(folder).found)
    return len(engine.rows(ALL))


def quiet(_: str) -> None:
    """Drop the lines about progress."""


def test_a_second_run_leaves_the_same(engine: Engine, folder: Folder, planned: Plan) -> None:
    run(engine, folder, whole(planned), say=quiet)
    first = rows(engine, folder)
    assert all(first[table.name] for table in MADE)
    run(engine, folder, whole(planned), say=quiet)
    assert rows(engine, folder) == first
    day = whole(planned).first
    run(engine, folder, of_days(day, day), say=quiet)
    assert rows(engine, folder) == first


def test_events_that_are_there_twice_count_once(engine: Engine, folder: Folder, planned: Plan) -> None:
    """A leader wrote a segment again, under another name."""
    found = look(folder)
    before = count(engine, folder)
    segment = found.found[0].segment
    again = segment._replace(last_sequence=segment.last_sequence + 1)
    shutil.copy(Path(folder.url, segment.path), Path(folder.url, again.path))
    assert count(engine, folder) == before


def test_bad_files_are_named_and_the_rest_is_read(engine: Engine, folder: Folder, planned: Plan) -> None:
    found = look(folder)
    cut, foreign = (
        Path(folder.url, found.found[0].segment.path),
        Path(folder.url, "date=2026-03-02", "notes.txt"),
    )
    cut.write_bytes(cut.read_bytes()[:-100])
    foreign.write_text("not a segment")
    seen = run(engine, folder, whole(planned), say=quiet)
    assert {Path(each.path).name for each in seen.skipped} == {cut.name, foreign.name}
    assert 0 < seen.rows < found.rows


def test_a_wrong_period_says_what_there_is(engine: Engine, folder: Folder, planned: Plan) -> None:
    date = planned.spec.first_date.replace(year=2020)
    with pytest.raises(NothingRecorded, match=r"there are events from 2026-03-02 to 2026-03-04"):
        run(engine, folder, of_days(date, date), say=quiet)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_segments_one_after_the_other_leave_what_all_at_once_do(
    spark: Any, folder: Folder, planned: Plan, tmp_path: Path
) -> None:
    """The stream sees the last day first, then the rest, late; and nothing a second time."""
    engine = OnSpark(spark)
    run(engine, folder, whole(planned), say=quiet)
    grown = Folder(str(tmp_path / "grown"))
    told: list[str] = []
    for dates in (("2026-03-04",), ("2026-03-02", "2026-03-03")):
        for date in dates:
            shutil.copytree(Path(folder.url, f"date={date}"), Path(grown.url, f"date={date}"))
        follow(spark, grown, every_s=None, say=told.append).awaitTermination()
    assert rows(engine, grown) == rows(engine, folder)
    count = len(told)
    follow(spark, grown, every_s=None, say=told.append).awaitTermination()
    assert len(told) == count


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_where_only_fsspec_can_read_the_missing_connector_is_named(spark: Any, folder: Folder) -> None:
    require_connector(spark, folder.url)
    with pytest.raises(SparkMissing, match=r"no way to s3://.*org\.apache\.hadoop:hadoop-aws:\d"):
        require_connector(spark, "s3://bucket/tier")
