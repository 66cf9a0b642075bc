"""The jobs find what was planted in a made-up history, no more and no less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import DAY_MS, Client, Spec
from storage.history.generator.write import write
from storage.history.jobs.events import look
from storage.history.jobs.invariants import COMMIT_REGRESSED, DOUBLE_OWNERSHIP, EPOCH_FELL
from storage.history.jobs.run import WhatIf, made
from storage.history.segments.folder import Folder

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def tables(spark: Any, planned: Plan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    from cluster.replayed_assignors import NAMES, replay

    folder = Folder(str(Path(tmp_path_factory.mktemp("history"))))
    write(planned, folder)
    with made(spark, folder, look(folder), WhatIf(NAMES, replay)) as found:
        yield found


def rebalances(tables: dict[str, Any]) -> dict[str, int]:
    """How many, by group."""
    counted = tables["rebalances"].groupBy("group_id").count().collect()
    return {row["group_id"]: row["count"] for row in counted}


def test_every_rebalance_is_one_row_with_an_end(tables: dict[str, Any], planned: Plan) -> None:
    assert rebalances(tables) == planned.answers.rebalances
    assert tables["rebalances"].where("ended_ms IS NULL OR duration_ms <= 0").count() == 0


def test_groups_add_up_to_their_rebalances(tables: dict[str, Any], planned: Plan) -> None:
    rows = tables["groups"].collect()
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["group_id"]] = sums.get(row["group_id"], 0) + row["rebalances"]
        assert sum((row["causes"] or {}).values()) == row["rebalances"]
        assert 0 < row["availability"] < 1
    assert sums == planned.answers.rebalances


def test_storms_are_found_with_their_origin(tables: dict[str, Any], planned: Plan) -> None:
    found = {
        (row["group_id"], row["began_ms"], row["ended_ms"], row["rebalances"], row["member_id"], row["cause"])
        for row in tables["storms"].collect()
    }
    assert found == set(planned.answers.storms)


@pytest.mark.parametrize("verdict", ["flapping", "slow"])
def test_members_to_look_at_are_found(tables: dict[str, Any], planned: Plan, verdict: str) -> None:
    found = {
        Client(row["group_id"], row["client_id"], row["client_host"])
        for row in tables["members"].where(f"is_{verdict}").collect()
    }
    assert found == set(getattr(planned.answers, verdict))


def test_broken_invariants_are_found(tables: dict[str, Any], planned: Plan) -> None:
    rows = tables["invariants"].collect()
    assert {
        (
            row["group_id"],
            row["topic"],
            row["partition"],
            tuple(row["members"]),
            row["at_ms"],
            row["until_ms"],
        )
        for row in rows
        if row["rule"] == DOUBLE_OWNERSHIP
    } == set(planned.answers.double_owned)
    assert {
        (
            *(row["group_id"], row["at_ms"], row["topic"], row["partition"], row["members"][0]),
            *(row["before"], row["after"]),
        )
        for row in rows
        if row["rule"] == COMMIT_REGRESSED
    } == set(planned.answers.regressed)
    assert {
        (row["group_id"], row["at_ms"], row["before"], row["after"])
        for row in rows
        if row["rule"] == EPOCH_FELL
    } == set(planned.answers.fallen)
    answers = planned.answers
    assert len(rows) == sum(map(len, (answers.double_owned, answers.regressed, answers.fallen)))


def test_expiries_ahead_are_found(tables: dict[str, Any], planned: Plan) -> None:
    """Those that come within the history are found once more, when they come."""
    groups = tables["groups"]
    ahead = groups.where("offsets_expiring > 0").collect()
    assert {(row["group_id"], row["offsets_expiring"], row["expires_ms"]) for row in ahead} == {
        (each.group_id, each.offsets, each.expires_ms) for each in planned.answers.expiring
    }
    spec = planned.spec
    come = [each for each in planned.answers.expiring if each.expires_ms < spec.first_ms + spec.days * DAY_MS]
    assert come
    over = groups.where("offsets_expired > 0").collect()
    assert {(row["group_id"], row["offsets_expired"]) for row in over} == {
        (each.group_id, each.offsets) for each in come
    }


def test_the_hot_group_is_found_in_every_hour(tables: dict[str, Any], planned: Plan) -> None:
    tier = tables["capacity"].where("offsets_partition = -1")
    assert {row["hot_group"] for row in tier.collect()} == {planned.answers.hot_group}
    assert tier.count() == planned.spec.days * 24
    assert tables["forecast"].count() == planned.spec.days


def test_a_group_with_most_events_hides_nothing(spark: Any, tmp_path: Path) -> None:
    skewed = plan(Spec(seed=9, events=24_000, days=1, groups=16, hot_share=0.95, hot_restarts=20))
    folder = Folder(str(tmp_path))
    write(skewed, folder)
    with made(spark, folder, look(folder)) as tables:
        counted = rebalances(tables)
        broken = tables["invariants"].count()
        storms = tables["storms"].count()
    answers = skewed.answers
    assert counted == answers.rebalances
    assert max(counted.values()) == counted[answers.hot_group] > sum(counted.values()) / 2
    assert broken == sum(map(len, (answers.double_owned, answers.regressed, answers.fallen)))
    assert storms == len(answers.storms)


def test_the_sticky_assignor_moves_less(tables: dict[str, Any], planned: Plan) -> None:
    """Each restart makes two assignments; both assignors level members to within one partition."""
    sums = {
        row["assignor"]: row
        for row in tables["what_if"]
        .groupBy("assignor")
        .agg({"moved": "sum", "assignments": "sum", "uneven": "max", "group_id": "count"})
        .collect()
    }
    assert set(sums) == {"uniform", "range"}
    restarts = planned.world.restarts.group.size
    for row in sums.values():
        assert row["sum(assignments)"] == planned.spec.groups * planned.spec.members + 2 * restarts
        assert row["max(uneven)"] <= 1
    assert 0 < sums["uniform"]["sum(moved)"] < sums["range"]["sum(moved)"]
    assert tables["what_if"].where("topics <> 1 OR assumes IS NOT NULL").count() == 0
