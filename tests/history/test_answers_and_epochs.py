"""Rules 3 and 4: answers come, in order, to whom they belong; nothing goes back; the fenced stay fenced."""

from __future__ import annotations

from typing import Any

import pytest

from storage.history.calls import ANSWERED, OPEN, TIMED_OUT
from storage.history.judge.answers import judge_answers
from storage.history.judge.epochs import judge_epochs
from storage.history.judge.findings import Limits
from tests.history.telling import Telling

LATE = 1_000_000
"""A time in ms at which no coordinator loads any more."""


def _answers(telling: Telling, end_ms: int | None = None) -> list[str]:
    return [violation.rule for violation in judge_answers(telling.history(end_ms), Limits()).violations]


def _epochs(telling: Telling) -> list[str]:
    return [violation.rule for violation in judge_epochs(telling.history(), Limits()).violations]


def test_whoever_leaves_without_waiting_for_its_answer_blames_nobody() -> None:
    """A member that is closed waits five seconds for its answer, and a killed broker takes longer."""
    telling = Telling()
    telling.call(client="a", api="LeaveGroup", sent_us=0, ended_us=5_000_000, outcome=TIMED_OUT)
    assert _answers(telling) == []


def test_request_that_neither_ends_nor_is_answered_is_a_broken_promise() -> None:
    telling = Telling()
    telling.call(client="a", sent_us=0, ended_us=30_000_000, outcome=TIMED_OUT)
    assert _answers(telling) == ["never answered"]


@pytest.mark.parametrize(("end_ms", "rules"), [(10_000, []), (60_000, ["never answered"])])
def test_history_that_ends_before_the_time_out_blames_nobody(end_ms: int, rules: list[str]) -> None:
    telling = Telling()
    telling.call(client="a", sent_us=0, outcome=OPEN)
    assert _answers(telling, end_ms) == rules


def test_frozen_process_may_let_its_clients_wait() -> None:
    telling = Telling()
    telling.fault(10_000, 12_000, silences=True)
    telling.call(client="a", sent_us=0, ended_us=30_000_000, outcome=TIMED_OUT)
    assert _answers(telling) == []


def _answer(correlation_id: int, sent_us: int, ended_us: int, answer: int) -> dict[str, Any]:
    return {
        "client": "a",
        "outcome": ANSWERED,
        "correlation_id": correlation_id,
        "answer_correlation_id": answer,
        "sent_us": sent_us,
        "ended_us": ended_us,
    }


def test_answer_must_belong_to_its_request() -> None:
    telling = Telling()
    telling.call(**_answer(1, 0, 10, 2))
    assert _answers(telling) == ["another's answer"]


def test_answers_of_a_connection_come_in_the_order_of_its_requests() -> None:
    telling = Telling()
    telling.call(**_answer(1, 0, 20, 1))
    telling.call(**_answer(2, 5, 10, 2))
    assert _answers(telling) == ["answers out of order"]


def test_generation_may_not_go_back() -> None:
    telling = Telling()
    telling.sync("a", 0, 5, 3, 0)
    telling.join("b", 6, 7, 2)
    assert _epochs(telling) == ["generation went back"]


def test_old_generation_may_not_be_confirmed() -> None:
    telling = Telling()
    telling.sync("a", 0, 5, 3, 0)
    telling.beat("b", 6, 7, 2)
    assert _epochs(telling) == ["generation an old one confirmed"]


def test_rebalance_of_which_nobody_saw_the_end_may_be_lost_with_its_coordinator() -> None:
    telling = Telling()
    telling.join("a", 0, 5, 3)
    telling.join("a", 6, 7, 2)
    assert _epochs(telling) == []


def test_answers_that_overlap_say_nothing_of_order() -> None:
    telling = Telling()
    telling.sync("a", 0, 5, 3, 0)
    telling.beat("b", 4, 7, 2)
    assert _epochs(telling) == []


def test_leader_that_loads_confirms_whatever_it_is_asked() -> None:
    telling = Telling()
    telling.fault(5, 5)
    telling.sync("a", 0, 4, 3, 0)
    telling.beat("b", 6, 7, 2)
    assert _epochs(telling) == []


def test_deleted_group_begins_anew() -> None:
    telling = Telling()
    telling.sync("a", 0, 5, 3, 0)
    telling.delete(6, 7)
    telling.join("b", 8, 9, 1)
    assert _epochs(telling) == []


def test_member_epoch_may_not_go_back() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 4))
    telling.consumer_beat("a", 2, 3, (4, 3))
    assert _epochs(telling) == ["epoch went back"]


def test_fenced_member_may_not_be_served_again() -> None:
    telling = Telling()
    telling.beat("a", 0, 1, 3)
    telling.beat("a", 2, 3, 3, error=25)
    telling.beat("a", 4, 5, 3)
    assert _epochs(telling) == ["a fenced member served"]


def test_member_that_was_missed_is_one_again_for_a_leader_that_takes_its_group_over() -> None:
    """C26: the group is as it was last stable, so at another generation it would not be."""
    for generation, found in ((3, []), (2, ["a fenced member served"])):
        telling = Telling()
        telling.beat("a", 2, 3, 3, error=25)
        telling.fault(5, 5)
        telling.beat("a", LATE, LATE + 1, generation)
        assert _epochs(telling) == found


def test_fenced_member_may_not_be_served_again_after_a_fault_before_that() -> None:
    telling = Telling()
    telling.fault(1, 1)
    telling.beat("a", LATE, LATE + 1, 3, error=25)
    telling.beat("a", LATE + 2, LATE + 3, 3)
    assert _epochs(telling) == ["a fenced member served"]


def test_consumer_member_comes_back_and_may_be_given_its_epoch_again() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 4))
    telling.consumer_beat("a", 2, 3, (4, -1), error_code=25)
    telling.consumer_beat("a", 4, 5, (0, 4))
    telling.consumer_beat("a", 6, 7, (4, 4))
    assert _epochs(telling) == []


def test_consumer_member_that_was_fenced_may_not_go_on_without_joining_again() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 1, (0, 4))
    telling.consumer_beat("a", 2, 3, (4, -1), error_code=110)
    telling.consumer_beat("a", 4, 5, (4, 4))
    assert _epochs(telling) == ["a fenced member served"]
