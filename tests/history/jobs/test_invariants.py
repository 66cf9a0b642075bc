"""Who owned a partition from when until when, what nobody can know of it, and which epochs fell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from storage.history.jobs.digest import digest
from storage.history.jobs.events import DDL
from storage.history.jobs.invariants import FAR, double_ownership, intervals, invariants, moves

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Told = tuple[int, str, str | int | None]


def table(spark: Any, told: Sequence[Told]) -> Any:
    """Rows of (at_ms, kind, what): an election begins a term; what "gains" is a member that gets the group's
    only partition; "cut" moves it without a word; a number is the group's epoch, any other text a member."""
    rows: list[dict[str, Any]] = []
    term = 0
    for at_ms, kind, what in told:
        term += kind == "coordinator_elected"
        row = {"offsets_partition": 3, "term": term, "sequence": len(rows), "at_ms": at_ms, "kind": kind}
        if kind != "coordinator_elected":
            row |= {"group_id": "g", "member_id" if isinstance(what, str) else "group_epoch": what}
        if kind == "gains":
            row |= {"kind": "rebalance_ended", "moved": 1, "moves": [("t", 0, None, what)]}
        if kind == "cut":
            row |= {"kind": "rebalance_ended", "moved": 1}
        rows.append(row)
    return spark.createDataFrame(rows, DDL)


def owned(events: Any) -> dict[str, tuple[int, int]]:
    return {
        row["member_id"]: (row["from_ms"], row["until_ms"])
        for row in intervals(moves(events), events, digest(events).lives).collect()
    }


def broken(events: Any) -> list[Any]:
    return list(invariants(events, digest(events).lives).collect())


def test_a_leader_that_died_left_what_it_knew_untold(spark: Any) -> None:
    """Its last events are lost: who owned something then may have lost it. What its heir tells is known,
    though no leader dies after it."""
    events = table(
        spark,
        [
            (0, "coordinator_elected", None),
            (10, "gains", "a"),
            (20, "coordinator_elected", None),
            (30, "gains", "b"),
        ],
    )
    assert owned(events) == {"a": (10, 20), "b": (30, FAR)}
    assert double_ownership(events, digest(events).lives).collect() == []


def test_what_a_rebalance_moved_beyond_its_row_is_not_known(spark: Any) -> None:
    """A row names the first of its moves only: whoever had a partition then may have lost it."""
    told = [(0, "coordinator_elected", None), (10, "gains", "a"), (20, "cut", None), (30, "gains", "b")]
    events = table(spark, [*told, (40, "cut", None)])
    assert owned(events) == {"a": (10, 20), "b": (30, 40)}
    assert double_ownership(events, digest(events).lives).collect() == []


def test_two_owners_under_one_leader_are_found(spark: Any) -> None:
    events = table(spark, [(0, "coordinator_elected", None), (30, "gains", "b"), (40, "gains", "c")])
    [found] = double_ownership(events, digest(events).lives).collect()
    assert (found["at_ms"], found["until_ms"], found["members"]) == (40, None, ["b", "c"])


def test_a_member_that_was_fenced_may_come_back(spark: Any) -> None:
    """A KIP-848 member keeps its id for life."""
    assert owned(table(spark, [(5, "member_fenced", "a"), (10, "gains", "a")])) == {"a": (10, FAR)}


def test_a_rebalance_that_ends_late_is_no_epoch_that_fell(spark: Any) -> None:
    """The epoch rose again before it was over: it ends with its own, and the next begins."""
    risen = [(1, "group_epoch_bumped", 5), (2, "group_epoch_bumped", 6), (2, "rebalance_ended", 5)]
    assert broken(table(spark, [*risen, (2, "rebalance_began", 6)])) == []
    [found] = broken(table(spark, [*risen, (3, "rebalance_began", 4)]))
    assert (found["rule"], found["before"], found["after"]) == ("epoch fell", 6, 4)
