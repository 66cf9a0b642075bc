"""Rule 2 over time: no partition of a classic group is held by two members at once."""

from __future__ import annotations

from typing import Any

import pytest

from storage.history.judge.findings import Limits
from storage.history.judge.ownership import judge_ownership
from tests.history.telling import Telling

ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCES = 22, 25, 27
TWICE = ["two owners at one time"]


def rules(telling: Telling, **limits: int) -> list[str]:
    found = judge_ownership(telling.history(200_000), Limits(**limits))
    return [violation.rule for violation in found.violations]


def owner(*, until: int = 0, **fields: Any) -> Telling:
    """Member "a" is told partition 0 in generation 1, at 20 ms, and beats every second until then."""
    telling = Telling()
    telling.join("a", 0, 10, 1, **fields)
    telling.sync("a", 11, 20, 1, 0, **fields)
    for at in range(1_000, until + 1, 1_000):
        telling.beat("a", at, at + 5, 1, **fields)
    return telling


def taken(telling: Telling, at: int, by: str = "b", **fields: Any) -> Telling:
    """Another is told the same partition in the next generation."""
    telling.join(by, at - 20, at - 10, 2)
    telling.sync(by, at - 9, at, 2, 0, **fields)
    return telling


def test_a_partition_told_to_another_while_its_owner_has_not_rejoined_has_two_owners() -> None:
    """Once the judge compared members of one generation only, and missed this lie."""
    assert rules(taken(owner(until=5_000), 6_000)) == TWICE


def test_an_eager_member_gives_up_all_when_it_joins_again() -> None:
    telling = owner(until=5_000)
    telling.beat("a", 5_500, 5_505, 1, error=REBALANCES)
    telling.join("a", 5_600, 5_990, 2)
    assert rules(taken(telling, 6_000)) == []


@pytest.mark.parametrize("error", [ILLEGAL_GENERATION, UNKNOWN_MEMBER, 82])
def test_whoever_hears_that_it_is_no_member_holds_nothing(error: int) -> None:
    telling = owner(until=5_000)
    telling.beat("a", 5_500, 5_505, 1, error=error)
    assert rules(taken(telling, 6_000)) == []


def test_whoever_leaves_or_crashes_holds_nothing() -> None:
    leaves = owner(until=5_000)
    leaves.call(client="a", member_id="a", api="LeaveGroup", sent_us=5_500_000, ended_us=5_501_000)
    crashes = owner(until=5_000)
    crashes.gone("a", 5_500)
    assert rules(taken(leaves, 6_000)) == rules(taken(crashes, 6_000)) == []


def test_a_silent_member_holds_no_longer_than_its_session() -> None:
    for at, expected in ((9_000, TWICE), (16_000, [])):
        assert rules(taken(owner(until=5_000, session_timeout_ms=10_000), at)) == expected


def test_a_member_that_does_not_rejoin_holds_no_longer_than_a_rebalance_waits() -> None:
    """The member's heartbeats go on, and are answered REBALANCE_IN_PROGRESS: that keeps its session alone."""
    for at, expected in ((9_000, TWICE), (16_000, [])):
        telling = owner(until=5_000, rebalance_timeout_ms=10_000)
        for beat in range(6_000, at, 1_000):
            telling.beat("a", beat, beat + 5, 1, error=REBALANCES, rebalance_timeout_ms=10_000)
        assert rules(taken(telling, at)) == expected


def test_what_a_member_may_have_lost_no_late_heartbeat_gives_back() -> None:
    """A coordinator that loads its groups answers heartbeats as if all were well."""
    telling = owner(until=5_000, session_timeout_ms=10_000)
    telling.beat("a", 30_000, 30_001, 1, session_timeout_ms=10_000)
    assert rules(taken(telling, 20_000)) == []


def test_heartbeats_around_a_fault_prolong_nothing() -> None:
    for has_fault, expected in ((False, TWICE), (True, [])):
        telling = owner(until=1_000, session_timeout_ms=10_000)
        telling.beat("a", 5_000, 5_001, 1, session_timeout_ms=10_000)
        if has_fault:
            telling.fault(4_000, 4_500)
        assert rules(taken(telling, 14_000)) == expected


def test_a_cooperative_member_keeps_what_it_says_that_it_owns() -> None:
    for owned, expected in (((0,), TWICE), ((), [])):
        telling = owner(until=5_000)
        telling.join("a", 5_500, 5_990, 2, owned=(("orders", owned),))
        assert rules(taken(telling, 6_000)) == expected


def test_a_cooperative_member_gives_up_what_it_is_told_no_longer() -> None:
    telling = owner(until=5_000)
    telling.join("a", 5_500, 5_600, 2, owned=(("orders", (0,)),))
    telling.sync("a", 5_610, 5_620, 2, 1)
    telling.join("a", 5_700, 5_800, 3, owned=(("orders", (1,)),))
    telling.sync("a", 5_810, 5_820, 3, 1)
    telling.join("b", 5_700, 5_800, 3)
    telling.sync("b", 5_810, 5_820, 3, 0)
    assert rules(telling) == []


def test_a_static_member_stays_itself_under_another_member_id() -> None:
    telling = owner(until=5_000, group_instance_id="rack-1")
    assert rules(taken(telling, 6_000, by="a again", group_instance_id="rack-1")) == []


def test_clocks_that_differ_are_allowed_for() -> None:
    telling = owner(until=5_000)
    telling.join("a", 6_010, 6_500, 2)
    taken(telling, 6_000)
    assert rules(telling) == TWICE
    assert rules(telling, clock_skew_us=20_000) == []


def test_an_answer_that_comes_after_its_own_session_holds_nothing() -> None:
    telling = Telling()
    telling.sync("a", 0, 50_000, 1, 0)  # a session lasts 45 s
    assert rules(taken(telling, 50_500)) == []


def test_a_member_that_is_told_its_generation_again_has_no_new_session() -> None:
    """A coordinator that has loaded a stable group answers from what it knows, and the session goes on."""
    for tells_before, expected in ((False, TWICE), (True, [])):
        telling = Telling()
        if tells_before:
            telling.join("leader", 0, 10, 1)
        telling.join("a", 40_000, 40_010, 1)
        telling.sync("a", 40_011, 40_020, 1, 0)
        assert rules(taken(telling, 50_000)) == expected
