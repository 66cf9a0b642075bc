"""What `groupd explain` and `groupd top` say, from a leader's answer (issue 8)."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from cluster.cli.explain_text import event_line, rebalance_lines, state_lines
from cluster.cli.top import _table
from storage.history.rules import RULES
from storage.history.schema import Move

NOW_MS = 1_700_000_000_000


def told(**changes: Any) -> dict[str, Any]:
    waited = {
        "member_id": "billing-2-77",
        "group_instance_id": None,
        "client_id": "billing-2",
        "client_host": "/10.0.0.7",
        "what": "joined again",
        "deadline_ms": NOW_MS + 4_200,
    }
    now = {
        "group_id": "billing",
        "group_type": "classic",
        "state": "PreparingRebalance",
        "group_epoch": 7,
        "assignment_epoch": None,
        "members": 3,
        "since_ms": NOW_MS - 800,
        "cause": "member left",
        "rule": "C23",
        "member_id": "billing-1-55",
        "reason": "the consumer is being closed",
        "says": "not all members have joined again",
        "waiting": 1,
        "waited_for": [waited],
        "offsets": 12,
    }
    answer = {
        "group_id": "billing",
        "now_ms": NOW_MS,
        "offsets_partition": 3,
        "node_id": 2,
        "term": 5,
        "leads_since_ms": NOW_MS - 60_000,
        "now": now,
        "last_commit_ms": NOW_MS - 3_000,
        "rebalances": [],
        "events": [],
    }
    return answer | changes


def test_a_stuck_group_is_one_sentence_and_who_it_waits_for() -> None:
    first, cause, waits, who, offsets, leader = state_lines(told())
    assert first == (
        "Group billing (classic, generation 7, 3 members) has been PreparingRebalance for 800 ms: "
        "not all members have joined again."
    )
    assert cause == (
        "  It rebalances because of: member left (a member that leaves is removed at once), member "
        'billing-1-55, in its own words "the consumer is being closed".'
    )
    assert waits == "  It waits for 1 of its members:"
    assert who.startswith(
        "    billing-2-77 (client billing-2 at /10.0.0.7) has not yet joined again; removed in 4.2 s, at "
    )
    assert offsets == "  Offsets: 12 partitions committed, the last commit 3.0 s ago."
    assert "node 2, offsets partition 3" in leader


def test_of_many_who_are_waited_for_some_are_named() -> None:
    answer = told()
    answer["now"] |= {"waiting": 250, "waited_for": answer["now"]["waited_for"] * 100}
    assert "    and 240 more" in list(state_lines(answer))


def test_a_rebalance_tells_phases_and_ways() -> None:
    row = {
        "at_ms": NOW_MS,
        "kind": "rebalance_ended",
        "group_epoch": 8,
        "state": "Stable",
        "members": 2,
        "cause": "new member",
        "rule": "C8",
        "member_id": "b",
        "duration_ms": 3_500,
        "joining_ms": 3_000,
        "syncing_ms": 500,
        "partitions": 6,
        "moved": 3,
        "moves": [
            Move("t", 0, "a", "b")._asdict(),
            Move("t", 1, "a", "b")._asdict(),
            Move("t", 2, None, "b")._asdict(),
        ],
        "waited_for": ["a"],
    }
    head, line, moved, *ways = rebalance_lines(told(rebalances=[row]), 5)
    assert head == "The last 1 rebalance, newest first:"
    assert "after 3.5 s (3.0 s joining, 500 ms syncing): new member (a member that has been given" in line
    assert "its id joins with it, within its session), member b; waited for a" in line
    assert moved == "    3 partitions moved, of 6 assigned"
    assert ways == ["    2 partitions from a to b", "    1 partition from nobody to b"]


def test_a11_a_rebalance_tells_who_computed_it_and_who_could_not() -> None:
    row = {
        "at_ms": NOW_MS,
        "kind": "rebalance_ended",
        "group_epoch": 8,
        "state": "Stable",
        "members": 3,
        "cause": "member joined",
        "duration_ms": 2_000,
        "partitions": 6,
        "moved": 0,
        "moves": [],
    }
    asked = {"kind": "assignment_refused", "group_epoch": 8, "assignor": "sticky"}
    events = [
        asked | {"member_id": "a", "cause": "it was silent for too long", "duration_ms": 1_500},
        {"kind": "assigned", "group_epoch": 7, "assignor": "sticky", "member_id": "a", "duration_us": 1},
        {"kind": "assigned", "group_epoch": 8, "assignor": "sticky", "member_id": "b", "duration_us": 12_300},
        {"kind": "member_joined", "member_id": "c"},
    ]
    _, _, refused, computed, *_ = rebalance_lines(told(rebalances=[row], events=events), 5)
    assert refused == "    a did not compute it after 1.5 s: it was silent for too long"
    assert computed == "    b computed the assignment with sticky in 12 ms"
    events = [
        asked | {"cause": "all that were asked failed: the server's assignor assigns"},
        {"kind": "assigned", "group_epoch": 8, "assignor": "uniform", "duration_us": 9},
    ]
    _, _, fallen_back, moved, *_ = rebalance_lines(told(rebalances=[row], events=events), 5)
    assert fallen_back == "    all that were asked failed: the server's assignor assigns"
    assert moved == "    0 partitions moved, of 6 assigned"


def test_what_nobody_could_read_is_said_to_be_unknown() -> None:
    row = {"at_ms": 0, "group_epoch": 1, "state": "Stable", "members": 1, "duration_ms": 1, "cause": "x"}
    assert what_moved(row | {"group_type": "classic"}).endswith("is not in consumers' format")
    many = row | {"group_type": "consumer", "partitions": 90_000}
    assert what_moved(many).endswith("too many partitions to compare")


def what_moved(row: dict[str, Any]) -> str:
    return list(rebalance_lines(told(rebalances=[row]), 1))[-1].strip()


def test_an_epoch_that_was_overtaken_is_not_said_to_have_had_too_many_partitions() -> None:
    """Once the text said "too many partitions to compare" of one, in a group with six partitions."""
    row = {
        "at_ms": 0,
        "group_type": "consumer",
        "group_epoch": 4,
        "state": "Assigning",
        "members": 2,
        "duration_ms": 1,
        "cause": "member joined",
        "partitions": None,
        "moved": None,
    }
    assert what_moved(row) == (
        "what moved is not known: epoch 4 was overtaken by the next one before anything was assigned"
    )
    assert what_moved(row | {"state": "Stable"}).endswith("they were assigned under an earlier leader")


def test_an_event_is_a_line() -> None:
    row = {
        "at_ms": NOW_MS,
        "kind": "member_expired",
        "member_id": "m",
        "cause": "session timeout",
        "rule": "M17",
    }
    assert event_line(row).endswith(
        " m was removed: session timeout (a member that is silent for its session timeout is removed)"
    )


def test_a_rebalance_that_waits_says_how_long_at_most() -> None:
    row = {
        "kind": "rebalance_delayed",
        "at_ms": NOW_MS,
        "duration_ms": 2_000,
        "cause": "member left",
        "rule": None,
        "member_id": "m",
        "reason": None,
    }
    assert event_line(row).endswith(" a rebalance waits up to 2.0 s for more: member left, member m")


def test_an_expiry_ahead_says_when() -> None:
    row = {"kind": "offsets_expiring", "at_ms": NOW_MS, "count": 1, "first_ms": 0, "last_ms": 0}
    assert event_line(row).endswith(
        " 1 committed offset will expire unless committed again, the first on 1970-01-01 00:00:00 UTC"
    )


def test_the_table_of_top_shows_the_share_of_time_not_stable() -> None:
    row = {
        "group_id": "billing",
        "state": "Stable",
        "members": 3,
        "rebalances": 4,
        "churn": 6,
        "commits": 1_234,
        "unstable_ms": 5_000,
        "cause": "member left",
        "led_ms": 50_000,
    }
    screen = StringIO()
    Console(width=120, file=screen).print(_table([row]))
    assert "5.0 s, 10.0%" in screen.getvalue()


def test_a_group_that_is_gone_says_why() -> None:
    gone = {"kind": "group_deleted", "at_ms": NOW_MS, "cause": "nobody used it", "rule": "O15"}
    first, why, *_ = state_lines(told(now=None, events=[gone]))
    assert first == "Group billing is not there any more."
    assert why.endswith(" it was deleted: nobody used it (a group without members and offsets is removed)")


def test_a_group_of_which_nobody_knows_since_when_just_is() -> None:
    now = told()["now"] | {"group_type": "consumer", "state": "Empty", "since_ms": None, "cause": None}
    now |= {"says": "it has no members", "members": 0, "waiting": 0, "waited_for": [], "assignment_epoch": 7}
    assert next(state_lines(told(now=now))) == (
        "Group billing (consumer, group epoch 7, assignment epoch 7, no members) is Empty: it has no members."
    )


@pytest.mark.parametrize("rule", RULES)
def test_no_line_has_the_id_of_a_rule_in_place_of_its_words(rule: str) -> None:
    row = {"at_ms": NOW_MS, "kind": "group_deleted", "cause": "why", "rule": rule}
    ended = row | {"kind": "rebalance_ended", "group_epoch": 8, "group_type": "classic", "state": "Stable"}
    ended |= {"members": 2, "duration_ms": 3_500}
    now = told()["now"] | {"rule": rule}
    lines = [event_line(row), *rebalance_lines(told(rebalances=[ended]), 1)]
    lines += [*state_lines(told(now=now)), *state_lines(told(now=None, events=[row]))]
    assert sum(f"why ({RULES[rule]})" in line for line in lines) == 3
    assert sum(RULES[rule] in line for line in lines) == 4
    assert not [line for line in lines if rule in line]
