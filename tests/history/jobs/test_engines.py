"""The tables are defined once, and both engines make the same rows of that."""

from __future__ import annotations

from typing import Any

import pytest

from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import write
from storage.history.jobs.definitions import OF_GROUPS, OF_TIER, PARTS, SUMS, query
from storage.history.jobs.embedded import embedded
from storage.history.jobs.engine import ALL_EVENTS, Engine
from storage.history.jobs.on_spark import OnSpark, translated
from storage.history.jobs.run import ALWAYS, Wanted, WhatIf, made
from storage.history.jobs.seen import look
from storage.history.jobs.tables import MADE
from storage.history.period import Period
from storage.history.segments.folder import Folder
from tests.history.jobs.spoiled import spoil

SKEWED = Spec(seed=9, events=24_000, days=2, groups=16, hot_share=0.95, hot_restarts=20)


def rows(engine: Engine, folder: Folder, period: Period | None) -> dict[str, list[Any]]:
    """Every table, comparable; floating point numbers as far as both can agree."""
    from cluster.replayed_assignors import NAMES, replay

    seen = look(folder, None if period is None else period.wider())
    with made(engine, folder, seen, Wanted(period, WhatIf(NAMES, replay))) as tables:
        return {table.name: _comparable(engine, table.name) for table in tables}


def rows_by_sql(spark: Any, folder: Folder) -> dict[str, list[Any]]:
    """Every table as Spark makes it of the same SQL by itself, of all events at once: nothing is parted, and
    nothing of it is DuckDB's."""
    engine = OnSpark(spark)
    engine.read(folder, look(folder).found)
    engine.rows(f"SELECT 1 FROM {ALL_EVENTS}", 1)
    for each in (*PARTS, *OF_GROUPS, *SUMS, *OF_TIER):
        spark.sql(translated(query(each.name, ALWAYS))).createOrReplaceTempView(each.name)
        if each.is_read_often or each in OF_GROUPS:
            spark.catalog.cacheTable(each.name)
    return {table.name: _comparable(engine, table.name) for table in MADE}


def _comparable(engine: Engine, name: str) -> list[str]:
    found = engine.rows(f"SELECT * FROM {name}")
    return sorted(str([_plain(value) for value in row.values()]) for row in found)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(value.items())
    return round(value, 9) if isinstance(value, float) else value


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("history", ["planned", "an hour of it", "skewed"])
def test_both_engines_make_the_same_rows(spark: Any, planned: Plan, tmp_path: Any, history: str) -> None:
    folder = Folder(str(tmp_path))
    write(plan(SKEWED) if history == "skewed" else planned, folder)
    noon_ms = planned.spec.first_ms + 36 * 3_600_000
    period = Period(noon_ms, noon_ms + 3_600_000) if history == "an hour of it" else None
    by_spark = rows(OnSpark(spark.newSession()), folder, period)
    with embedded(folder.url) as engine:
        assert rows(engine, folder, period) == by_spark
    assert [
        name for name, found in by_spark.items() if not found and name not in ("storms", "invariants")
    ] == []


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_tasks_make_what_sparks_own_sql_makes(spark: Any, planned: Plan, tmp_path: Any) -> None:
    """DuckDB works in the tasks: what Spark itself makes of the same words says whether it is right. There
    are leaders and members that came anew, a split, and segments that overlap."""
    folder = Folder(str(tmp_path))
    spoil(planned, folder)
    by_sql = rows_by_sql(spark.newSession(), folder)
    by_tasks = rows(OnSpark(spark.newSession()), folder, None)
    assert by_tasks == by_sql | {"what_if": by_tasks["what_if"]}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ('SELECT "group_id" FROM storms', "SELECT `group_id` FROM storms"),
        ("SHOW TABLES", "SHOW TABLES"),
        ("SELECT `group_id` FROM storms", "SELECT `group_id` FROM storms"),
    ],
)
def test_spark_is_given_its_own_words(asked: str, given: str) -> None:
    """SQL that is not DuckDB's is taken for Spark's and left as it is."""
    assert translated(asked) == given
