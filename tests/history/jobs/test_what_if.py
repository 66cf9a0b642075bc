"""What `what_if` has to guess, it says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from storage.history.jobs.events import TYPES
from storage.history.jobs.what_if import SAME_TOPICS, what_if
from storage.history.schema import MOVES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DDL = f"date date, group_id string, at_ms bigint, kind string, member_id string, moves {TYPES[MOVES]}"
DATE = dt.date(2026, 3, 2)


def test_a_group_of_several_topics_says_what_is_guessed(spark: Any) -> None:
    from cluster.replayed_assignors import replay

    def group(name: str, *topics: str) -> list[tuple[Any, ...]]:
        moves = [(topic, partition, None, "a") for topic in topics for partition in range(4)]
        joined = [
            (DATE, name, at_ms, "member_joined", member, None) for at_ms, member in ((1, "a"), (2, "b"))
        ]
        return [*joined, (DATE, name, 3, "rebalance_ended", None, moves)]

    events = spark.createDataFrame([*group("one", "t"), *group("two", "t", "u")], DDL)
    found = {
        row["group_id"]: row for row in what_if(events, events.drop("moves"), ("uniform",), replay).collect()
    }
    assert [found["one"][name] for name in ("topics", "partitions", "assumes")] == [1, 4, None]
    assert [found["two"][name] for name in ("topics", "partitions", "assumes")] == [2, 8, SAME_TOPICS]
    assert [row["assignments"] for row in found.values()] == [2, 2]
