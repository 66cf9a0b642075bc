"""Rule 2: two owners are met, at one generation or epoch and at one time; a hand-over is none."""

from __future__ import annotations

from storage.history.judge.findings import Limits
from storage.history.judge.ownership import judge_ownership
from tests.history.telling import Telling


def _rules(telling: Telling, limits: Limits = Limits()) -> list[str]:  # noqa: B008 (an immutable value)
    return [violation.rule for violation in judge_ownership(telling.history(), limits).violations]


def test_generation_gives_each_partition_to_one_member() -> None:
    telling = Telling()
    telling.sync("a", 0, 2, 1, 0, 1)
    telling.sync("b", 0, 3, 1, 1, 2)
    assert _rules(telling) == ["two owners at one epoch"]


def test_next_generation_may_give_it_to_another() -> None:
    telling = Telling()
    telling.sync("a", 0, 2, 1, 0, 1)
    telling.sync("b", 5, 6, 2, 0, 1)
    assert _rules(telling) == []


def test_static_member_that_restarts_is_the_same_owner() -> None:
    telling = Telling()
    telling.sync("a", 0, 2, 1, 0, group_instance_id="left")
    telling.sync("a2", 5, 6, 1, 0, group_instance_id="left")
    assert _rules(telling) == []


def _handed_over(acknowledged_at: int) -> Telling:
    """`a` has 0 and 1, is asked for 1, says so at `acknowledged_at`; `b` is told that it has 1 at 30."""
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0, 1])
    telling.consumer_beat("a", 10, 11, (1, 1), assigned=[0])
    telling.consumer_beat("a", acknowledged_at, acknowledged_at + 1, (1, 2), owned=[0])
    telling.consumer_beat("b", 29, 30, (2, 2), assigned=[1])
    telling.consumer_beat("b", 60, 61, (2, 2))
    return telling


def test_partition_goes_on_after_its_owner_has_said_that_it_gave_it_up() -> None:
    telling = _handed_over(20)
    assert _rules(telling) == []
    assert judge_ownership(telling.history(), Limits()).judged == {"assignments": 3, "holds": 3}


def test_partition_given_away_before_its_owner_has_given_it_up_has_two() -> None:
    assert _rules(_handed_over(40)) == ["two owners at one time"]


def test_clocks_of_two_machines_may_differ() -> None:
    assert _rules(_handed_over(40), Limits(clock_skew_us=20_000)) == []


def test_member_that_leaves_gives_all_up_when_it_says_so() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0])
    telling.consumer_beat("a", 10, None, (-1, -1))
    telling.consumer_beat("b", 11, 12, (0, 2), assigned=[0])
    telling.consumer_beat("b", 60, 61, (2, 2))
    assert _rules(telling) == []


def test_member_that_leaves_holds_nothing_that_an_earlier_heartbeat_is_told_later() -> None:
    """The member leaves while a heartbeat waits for its answer; the answer then names partitions."""
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0])
    telling.consumer_beat("a", 10, 20, (1, 2), assigned=[0, 1])
    telling.consumer_beat("a", 12, 21, (-1, -1))
    telling.consumer_beat("b", 30, 31, (0, 3), assigned=[0, 1])
    telling.consumer_beat("b", 60, 61, (3, 3))
    assert _rules(telling) == []


def test_member_may_leave_in_the_moment_in_which_it_is_answered() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 10, (0, 1), assigned=[0])
    telling.consumer_beat("a", 10, None, (-1, -1))
    telling.consumer_beat("b", 11, 12, (0, 2), assigned=[0])
    telling.consumer_beat("b", 60, 61, (2, 2))
    assert _rules(telling) == []


def test_silent_member_has_lost_its_partitions_when_its_session_is_over() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0], session_timeout_ms=100)
    telling.consumer_beat("a", 90, None, (1, -1), session_timeout_ms=100)
    telling.consumer_beat("b", 100, 101, (0, 2), assigned=[0])
    telling.consumer_beat("a", 150, 151, (1, -1), error_code=25, session_timeout_ms=100)
    assert _rules(telling) == []


def test_member_whose_session_lasts_keeps_its_partitions() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0], session_timeout_ms=100)
    telling.consumer_beat("a", 90, 91, (1, 1), session_timeout_ms=100)
    telling.consumer_beat("b", 100, 101, (0, 2), assigned=[0])
    telling.consumer_beat("a", 150, 151, (1, -1), error_code=25, session_timeout_ms=100)
    assert _rules(telling) == ["two owners at one time"]


def test_member_too_slow_to_give_up_is_fenced_in_time() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0], rebalance_timeout_ms=50)
    telling.consumer_beat("a", 10, 11, (1, 1), assigned=[], rebalance_timeout_ms=50)
    telling.consumer_beat("a", 40, 41, (1, 1), rebalance_timeout_ms=50)
    telling.consumer_beat("b", 69, 70, (2, 2), assigned=[0])
    telling.consumer_beat("a", 80, 81, (1, -1), error_code=110, rebalance_timeout_ms=50)
    assert _rules(telling) == []


def test_member_that_is_removed_for_one_partition_loses_the_others_with_it() -> None:
    """A member that slept was asked for one of two partitions and did not give it up: what the other's next
    owner was told on its removal was taken for a second ownership."""
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0, 1], rebalance_timeout_ms=50)
    telling.consumer_beat("a", 10, 11, (1, 1), assigned=[0], rebalance_timeout_ms=50)
    telling.consumer_beat("a", 40, 41, (1, 1), rebalance_timeout_ms=50)
    telling.consumer_beat("b", 69, 70, (2, 2), assigned=[0, 1])
    telling.consumer_beat("a", 80, 81, (1, -1), error_code=110, rebalance_timeout_ms=50)
    assert _rules(telling) == []


def test_client_that_crashed_holds_nothing() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 1), assigned=[0])
    telling.gone("a", 5)
    telling.consumer_beat("b", 100, 101, (0, 2), assigned=[0])
    telling.consumer_beat("b", 200, 201, (2, 2))
    assert _rules(telling) == []
