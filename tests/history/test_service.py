"""Rule 6: whether groups were served at the end, and whether what was planned was answered."""

from __future__ import annotations

import pytest

from storage.history.calls import CLOSED, OPEN, READER
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN, Limits
from storage.history.judge.outages import outages
from storage.history.judge.service import Planned
from storage.history.judge.verdict import judge
from tests.history.telling import GROUP, Telling

PLANNED = Planned(requests=20, member_s=60)
NOT_AVAILABLE = 15


def member(until_s: int = 20) -> Telling:
    """Tell of a member that joins and sends a heartbeat every second until this time."""
    telling = Telling()
    telling.topic(1)
    telling.join("m1", 0, 5, 1)
    telling.sync("m1", 6, 8, 1, 0)
    for at_s in range(1, until_s):
        telling.beat("m1", at_s * 1_000, at_s * 1_000 + 2, 1)
    return telling


def status(telling: Telling, end_s: int, planned: Planned | None = PLANNED) -> tuple[str, str]:
    """Judge, and return the status of the promise `service` with the reason."""
    verdict = judge(telling.history(end_s * 1_000), planned=planned)
    (promise,) = (each for each in verdict.promises if each.name == "service")
    assert verdict.status != KEPT or promise.status == KEPT
    return promise.status, promise.because


def refused_connects(telling: Telling, since_s: int, until_s: int) -> None:
    for at_s in range(since_s, until_s):
        row = {"client": "m1", "outcome": CLOSED, "detail": "Connection refused", "connection": ""}
        telling.call(api="FindCoordinator", sent_us=at_s * 10**6, ended_us=at_s * 10**6 + 300, **row)


def test_a_group_served_until_the_end_with_all_that_was_planned_is_kept() -> None:
    assert status(member(), 20) == (
        KEPT,
        "every group was served at the end; 100% of the 20 requests that were due were answered",
    )


def test_a_dead_server_breaks_the_promise() -> None:
    """A proxy that refused all connections from second 20 of 60 had passed with exit code 0."""
    telling = member()
    refused_connects(telling, 20, 60)
    assert status(telling, 60) == (BROKEN, "1 x without service at the end")
    (violation,) = judge(telling.history(60_000)).violations
    assert "for 40.0 s" in violation.text
    assert "Connection refused" in violation.text


def test_an_outage_under_churn_breaks_the_promise() -> None:
    """Every Join, Sync and Heartbeat answered COORDINATOR_NOT_AVAILABLE had been "nothing to judge"."""
    telling = member()
    for at_s in range(20, 60):
        telling.join(f"m{at_s}", at_s * 1_000, at_s * 1_000 + 1, -1, error=NOT_AVAILABLE)
        telling.beat("m1", at_s * 1_000, at_s * 1_000 + 1, 1, error=NOT_AVAILABLE)
    assert status(telling, 60)[0] == BROKEN


def test_a_shorter_outage_at_the_end_is_not_shown() -> None:
    telling = member()
    refused_connects(telling, 20, 30)
    found, because = status(telling, 30)
    assert (found, GROUP in because) == (NOT_SHOWN, True)


def test_an_outage_while_a_fault_lasts_is_not_shown_and_counts_from_its_end() -> None:
    for fault_end_s, expected in ((60, NOT_SHOWN), (45, NOT_SHOWN), (30, BROKEN)):
        telling = member()
        refused_connects(telling, 20, 60)
        telling.fault(20_000, fault_end_s * 1_000)
        assert status(telling, 60)[0] == expected


def test_whoever_is_gone_asks_for_nothing() -> None:
    for last in ("crash", "leave"):
        telling = member()
        refused_connects(telling, 20, 40)
        if last == "crash":
            telling.gone("m1", 40_000)
        else:
            telling.call(
                client="m1", api="LeaveGroup", sent_us=41 * 10**6, ended_us=41 * 10**6, outcome=CLOSED
            )
        assert not outages(telling.history(70_000), Limits())


@pytest.mark.parametrize(
    ("api", "age_s", "is_out"), [("Heartbeat", 3, 0), ("Heartbeat", 9, 1), ("JoinGroup", 9, 0)]
)
def test_an_answer_may_be_held_for_a_while_and_a_joins_for_long(api: str, age_s: int, is_out: int) -> None:
    telling = member(until_s=51)
    telling.call(client="m1", api=api, sent_us=(60 - age_s) * 10**6, outcome=OPEN)
    assert len(outages(telling.history(60_000), Limits())) == is_out


def test_the_final_readers_answers_are_no_service_to_members() -> None:
    telling = member()
    refused_connects(telling, 20, 60)
    telling.read_at_end(61_000, 61_001, -1)
    assert status(telling, 60)[0] == BROKEN
    assert READER not in judge(telling.history(60_000)).violations[0].text


def test_too_small_a_share_of_what_was_planned_is_not_shown() -> None:
    found, because = status(member(), 20, Planned(requests=100, member_s=60))
    assert (found, because[:3]) == (NOT_SHOWN, "21%")
    assert "at least 50% is asked for" in because


def test_time_in_which_a_join_waits_for_others_counts_as_served() -> None:
    telling = Telling()
    telling.join("m1", 0, 40_000, 1)
    telling.sync("m1", 40_001, 60_000, 1, 0)
    assert status(telling, 60)[0] == KEPT


def test_a_record_that_does_not_say_what_was_planned_shows_no_share() -> None:
    found, because = status(member(), 20, None)
    assert (found, because) == (
        NOT_SHOWN,
        "21 requests were answered; how many were planned the record does not say",
    )


def test_a_history_without_an_answer_shows_nothing() -> None:
    found, because = status(Telling(), 20)
    assert (found, because) == (NOT_SHOWN, "no coordinator answered any request")


def test_a_group_without_service_at_the_end_is_none_that_recovered() -> None:
    telling = member()
    refused_connects(telling, 20, 60)
    recovery = next(each for each in judge(telling.history(60_000)).promises if each.name == "recovery")
    assert recovery.status == NOT_SHOWN


def test_a_group_whose_commits_are_all_in_vain_is_without_service_though_its_heartbeats_are_served() -> None:
    telling = member(until_s=60)
    for at_s in range(1, 60):
        error = 15 if at_s > 20 else 0
        telling.commit(at_s * 1_000 + 300, at_s * 1_000 + 302, at_s, error)
    assert status(telling, 60, PLANNED) == (BROKEN, "1 x without service at the end")


def test_one_commit_that_was_lost_is_no_outage_of_a_group_that_is_served() -> None:
    telling = member(until_s=60)
    telling.commit(20_300, 20_302, 1, 15)
    assert status(telling, 60, PLANNED._replace(requests=60))[0] == KEPT


def test_a_join_that_is_never_answered_is_an_outage_once_no_rebalance_may_last_so_long() -> None:
    telling = member(until_s=10)
    telling.call(
        client="m2", api="JoinGroup", sent_us=10_500_000, outcome="open", rebalance_timeout_ms=10_000
    )
    assert status(telling, 40, PLANNED._replace(requests=10))[0] == KEPT
    assert status(telling, 75, PLANNED._replace(requests=10))[0] == BROKEN
