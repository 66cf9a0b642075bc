"""Ten minutes of a real tier under a swarm, explained by its history alone: read plainly, and by Spark.

`REAL_RUN_MINUTES=3 python -m pytest -m spark tests/history/real_run -s` is shorter, and prints the
answers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from storage.history.jobs.on_spark import OnSpark
from storage.history.jobs.run import Wanted, made
from storage.history.jobs.seen import look
from tests.history.real_run import checks
from tests.history.real_run.answers import answers
from tests.history.real_run.stage import Played, play
from tests.history.real_run.table_answers import TableAnswers, table_answers

HEARTBEAT_MS = 1_000
MINUTES = float(os.environ.get("REAL_RUN_MINUTES", "10"))


@pytest.fixture(scope="session")
def spark() -> Any:
    """A session of Spark, made before the run: without Java its ten minutes would be for nothing."""
    from storage.history.jobs.session import SparkMissing, session

    try:
        with session("local[2]", "1g") as found:
            yield found
    except SparkMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.ray
@pytest.mark.spark
@pytest.mark.timeout(1_500)
def test_spark_answers_what_the_swarm_saw(spark: Any, tmp_path: Path) -> None:
    """Rolling deploys, slow members and a leader's death: who caused the third rebalance, how long
    partitions had no owner, and which commit went back."""
    played = play(
        tmp_path,
        Path(__file__).with_name("ten-minutes.toml"),
        duration_s=MINUTES * 60,
        partitions=4,
        segment_ms=5_000,
        heartbeat_ms=HEARTBEAT_MS,
    )
    told = answers(played.folder)
    checks.check_kill(told, played)
    triggers = checks.check_triggers(told, played)
    ownerless = checks.check_gaps(told, played, HEARTBEAT_MS)
    checks.check_commits(told, played)
    engine = OnSpark(spark)
    with made(engine, played.folder, look(played.folder), Wanted(keeps_all=True)):
        by_spark = table_answers(engine)
    assert by_spark.back == told.back
    assert by_spark.broken == [], "the tier broke a promise, or its history says so"
    for group_id in played.record.group_ids:
        assert by_spark.triggers[group_id] == told.triggers[group_id], group_id
    for each in ownerless:
        # A table's sum counts whole rebalances, those included whose gaps nobody could see: at most.
        assert by_spark.unowned_ms[each.group_id] >= each.seen_ms - checks.late_ms(played) * each.gaps, each
    tell(triggers, ownerless, by_spark, played)


def tell(
    triggers: dict[str, str], ownerless: list[checks.Ownerless], by_spark: TableAnswers, played: Played
) -> None:
    print(f"\nleader of offsets partition {played.killed_partition} killed; commits that went back:")
    print(*sorted(by_spark.back), sep="\n")
    for group_id, told_ms, seen_ms, gaps in ownerless:
        count = len(by_spark.triggers[group_id])
        print(
            f"{group_id}: {count} rebalances, the third by {triggers.get(group_id, 'nobody knows')}; "
            f"partition-ms without an owner: {told_ms:,} told, {seen_ms:,} seen in {gaps} gaps, "
            f"{by_spark.unowned_ms[group_id]:,} at most (Spark)"
        )
