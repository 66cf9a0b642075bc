"""The tables tell what was planted in a made-up history, no more and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import DAY_MS, Client, Spec
from storage.history.generator.write import write
from storage.history.jobs.engine import Engine, Row
from storage.history.jobs.invariants import COMMIT_REGRESSED, DOUBLE_OWNERSHIP, EPOCH_FELL
from storage.history.jobs.run import Wanted, WhatIf, made
from storage.history.jobs.seen import look
from storage.history.segments.folder import Folder
from tests.history.jobs.conftest import Opened

Ask = Callable[[str], list[Row]]


@pytest.fixture(scope="module")
def ask(opened: Opened, written: Folder) -> Iterator[Ask]:
    """Makes the tables of the planned history and asks them with SQL."""
    from cluster.replayed_assignors import NAMES, replay

    wanted = Wanted(what_if=WhatIf(NAMES, replay), keeps_all=True)
    with opened() as engine, made(engine, written, look(written), wanted):
        yield engine.rows


def rebalances(ask: Ask) -> dict[str, int]:
    """Return the number of rebalances of each group."""
    counted = ask("SELECT group_id, count(*) AS count FROM rebalances GROUP BY group_id")
    return {row["group_id"]: row["count"] for row in counted}


def test_every_rebalance_is_one_row_with_an_end(ask: Ask, planned: Plan) -> None:
    assert rebalances(ask) == planned.answers.rebalances
    assert ask("SELECT * FROM rebalances WHERE ended_ms IS NULL OR duration_ms <= 0") == []


def test_groups_add_up_to_their_rebalances(ask: Ask, planned: Plan) -> None:
    rows = ask("SELECT * FROM groups")
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["group_id"]] = sums.get(row["group_id"], 0) + row["rebalances"]
        assert sum((row["causes"] or {}).values()) == row["rebalances"]
        assert 0 < row["availability"] < 1
    assert sums == planned.answers.rebalances


def test_storms_are_found_with_their_origin(ask: Ask, planned: Plan) -> None:
    found = {
        (row["group_id"], row["began_ms"], row["ended_ms"], row["rebalances"], row["member_id"], row["cause"])
        for row in ask("SELECT * FROM storms")
    }
    assert found == set(planned.answers.storms)


@pytest.mark.parametrize("verdict", ["flapping", "slow"])
def test_members_to_look_at_are_found(ask: Ask, planned: Plan, verdict: str) -> None:
    found = {
        Client(row["group_id"], row["client_id"], row["client_host"])
        for row in ask(f"SELECT * FROM members WHERE is_{verdict}")
    }
    assert found == set(getattr(planned.answers, verdict))


def test_broken_invariants_are_found(ask: Ask, planned: Plan) -> None:
    rows = ask("SELECT * FROM invariants")
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


def test_expiries_ahead_are_found(ask: Ask, planned: Plan) -> None:
    """Offsets whose time comes within the history are found again when they expire."""
    ahead = ask("SELECT * FROM groups WHERE offsets_expiring > 0")
    assert {(row["group_id"], row["offsets_expiring"], row["expires_ms"]) for row in ahead} == {
        (each.group_id, each.offsets, each.expires_ms) for each in planned.answers.expiring
    }
    spec = planned.spec
    come = [each for each in planned.answers.expiring if each.expires_ms < spec.first_ms + spec.days * DAY_MS]
    assert come
    over = ask("SELECT * FROM groups WHERE offsets_expired > 0")
    assert {(row["group_id"], row["offsets_expired"]) for row in over} == {
        (each.group_id, each.offsets) for each in come
    }


def test_the_hot_group_is_found_in_every_hour(ask: Ask, planned: Plan) -> None:
    tier = ask("SELECT * FROM capacity WHERE offsets_partition = -1")
    assert {row["hot_group"] for row in tier} == {planned.answers.hot_group}
    assert len(tier) == planned.spec.days * 24
    assert len(ask("SELECT * FROM forecast")) == planned.spec.days


def test_a_group_with_most_events_hides_nothing(engine: Engine, tmp_path: Path) -> None:
    skewed = plan(Spec(seed=9, events=24_000, days=1, groups=16, hot_share=0.95, hot_restarts=20))
    folder = Folder(str(tmp_path))
    write(skewed, folder)
    with made(engine, folder, look(folder)):
        counted = rebalances(engine.rows)
        broken = len(engine.rows("SELECT * FROM invariants"))
        storms = len(engine.rows("SELECT * FROM storms"))
    answers = skewed.answers
    assert counted == answers.rebalances
    assert max(counted.values()) == counted[answers.hot_group] > sum(counted.values()) / 2
    assert broken == sum(map(len, (answers.double_owned, answers.regressed, answers.fallen)))
    assert storms == len(answers.storms)


def test_the_sticky_assignor_moves_less(ask: Ask, planned: Plan) -> None:
    """Each restart makes two assignments; both assignors level members to within one partition."""
    sums = {
        row["assignor"]: row
        for row in ask(
            "SELECT assignor, sum(moved) AS moved, sum(assignments) AS assignments, max(uneven) AS uneven"
            " FROM what_if GROUP BY assignor"
        )
    }
    assert set(sums) == {"uniform", "range"}
    restarts = planned.world.restarts.group.size
    for row in sums.values():
        assert row["assignments"] == planned.spec.groups * planned.spec.members + 2 * restarts
        assert row["uneven"] <= 1
    assert 0 < sums["uniform"]["moved"] < sums["range"]["moved"]
    assert ask("SELECT * FROM what_if WHERE topics <> 1 OR assumes IS NOT NULL") == []
