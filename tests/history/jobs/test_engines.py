"""The tables are defined once, and both engines make the same rows of that."""

from __future__ import annotations

from typing import Any

import pytest

from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import write
from storage.history.jobs.embedded import embedded
from storage.history.jobs.engine import Engine
from storage.history.jobs.on_spark import OnSpark, translated
from storage.history.jobs.run import Wanted, WhatIf, made
from storage.history.jobs.seen import look
from storage.history.period import Period
from storage.history.segments.folder import Folder

SKEWED = Spec(seed=9, events=24_000, days=2, groups=16, hot_share=0.95, hot_restarts=20)


def rows(engine: Engine, folder: Folder, period: Period | None) -> dict[str, list[Any]]:
    """Every table, comparable; floating point numbers as far as both can agree."""
    from cluster.replayed_assignors import NAMES, replay

    seen = look(folder, None if period is None else period.wider())
    with made(engine, folder, seen, Wanted(period, WhatIf(NAMES, replay))) as tables:
        return {
            table.name: sorted(
                str([_plain(value) for value in row.values()])
                for row in engine.rows(f"SELECT * FROM {table.name}")
            )
            for table in tables
        }


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
