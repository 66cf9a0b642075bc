"""The state of an upgrade says who runs what, what is possible, and who holds the tier back."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ground.release import told
from cluster.cli.upgrade import advice
from cluster.tier_actors import TierActor, replica_actor
from cluster.tier_file import TierError
from cluster.upgrade import ActorRelease, UpgradeState, releases

BROKER = TierActor("broker", "broker-1", (1,), 1)
CONTROLLER = replica_actor("controller", 0, 1)
PARTITION = replica_actor("partition-0", 1, 2)
SILENT = {"dead": "there is no such actor"}


def said(high: int, level: int | None = None, problem: str | None = None) -> dict[str, Any]:
    status = {"release": f"0.{high}.0", "levels": (1, high), "problem": problem}
    return status if level is None else {**status, "level": level}


def state(broker: dict[str, Any], controller: dict[str, Any], partition: dict[str, Any]) -> UpgradeState:
    statuses = {BROKER.name: broker, CONTROLLER.name: controller, PARTITION.name: partition}
    return UpgradeState(tuple(releases((BROKER, CONTROLLER, PARTITION), statuses)), {})


def test_the_lowest_that_all_can_serve_is_possible() -> None:
    found = state(said(3, 1), said(3, 1), said(2))
    assert (found.level, found.possible, found.highest) == (1, 2, 3)
    assert advice(found) == (
        "groupd.version is at level 1, and all can serve 2: `groupd upgrade finalize` raises it."
    )


def test_who_holds_the_tier_back_is_named() -> None:
    found = state(said(2, 1), said(2, 1), {"pid": 1})
    assert found.possible == 1
    assert found.holding_back == [ActorRelease("partition-0-1", 2, "older", 1, 1)]
    assert "such as partition-0-1 on node 2, cannot serve 2 yet" in advice(found)


def test_nothing_is_possible_while_somebody_is_silent() -> None:
    found = state(said(2, 1), said(2, 1), SILENT)
    assert found.silent == ["partition-0-1"]
    assert "while 1 of the actors do not answer" in advice(found)


def test_after_finalizing_there_is_nothing_to_do() -> None:
    found = state(said(2, 2), said(2, 2), said(2))
    assert advice(found) == "groupd.version is at level 2, the highest that these releases can serve."


def test_an_actor_that_could_not_start_does_not_know_the_level() -> None:
    found = state(said(2, 1, "ReleaseTooOld: ..."), said(3, 3), said(3))
    assert found.level == 3


def test_nobody_knows_the_level_of_a_tier_without_brokers_and_controllers() -> None:
    with pytest.raises(TierError, match="try again"):
        _ = state(SILENT, SILENT, said(2)).level


def test_an_actor_says_its_release_and_its_levels() -> None:
    assert set(told()) == {"release", "levels"}
