"""Who owned a partition from when until when, and what nobody can know of it."""

from __future__ import annotations

from typing import Any

import pytest

from storage.history.jobs.events import TYPES
from storage.history.jobs.invariants import FAR, double_ownership, intervals
from storage.history.schema import MOVES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DDL = (
    "group_id string, offsets_partition int, term bigint, sequence bigint, at_ms bigint, kind string,"
    f" member_id string, moved bigint, moves {TYPES[MOVES]}"
)


def happened(*told: tuple[int, str, str | None]) -> list[tuple[Any, ...]]:
    """Rows of (at_ms, what, member): a member gains the group's partition where the kind is "gains"; an
    election begins a term."""
    rows: list[tuple[Any, ...]] = []
    term = 0
    for at_ms, kind, member_id in told:
        term += kind == "coordinator_elected"
        gained = [("t", 0, None, member_id)] if kind == "gains" else None
        kind = "rebalance_ended" if gained else kind
        group_id = None if kind == "coordinator_elected" else "g"
        rows.append((group_id, 3, term, at_ms, at_ms, kind, member_id, gained and 1, gained))
    return rows


def owned(spark: Any, rows: list[tuple[Any, ...]]) -> dict[str, tuple[int, int]]:
    found = intervals(spark.createDataFrame(rows, DDL)).collect()
    return {row["member_id"]: (row["from_ms"], row["until_ms"]) for row in found}


def test_a_leader_that_died_left_what_it_knew_untold(spark: Any) -> None:
    """Its last events are lost: who owned something then may have lost it. What its heir tells is known,
    though no leader dies after it."""
    rows = happened(
        (0, "coordinator_elected", None),
        (10, "gains", "a"),
        (20, "coordinator_elected", None),
        (30, "gains", "b"),
    )
    assert owned(spark, rows) == {"a": (10, 20), "b": (30, FAR)}
    assert double_ownership(spark.createDataFrame(rows, DDL)).collect() == []


def test_two_owners_under_one_leader_are_found(spark: Any) -> None:
    rows = happened((0, "coordinator_elected", None), (30, "gains", "b"), (40, "gains", "c"))
    [found] = double_ownership(spark.createDataFrame(rows, DDL)).collect()
    assert (found["at_ms"], found["until_ms"], found["members"]) == (40, None, ["b", "c"])


def test_a_member_that_was_fenced_may_come_back(spark: Any) -> None:
    """A KIP-848 member keeps its id for life."""
    rows = happened((5, "member_fenced", "a"), (10, "gains", "a"))
    assert owned(spark, rows) == {"a": (10, FAR)}
