"""What a fault did is read from what clients were answered, and put down to that fault alone."""

from __future__ import annotations

from pathlib import Path

from bench.chaos import scenario as scenarios
from bench.chaos.availability import Availability, availability
from bench.chaos.faults import KINDS
from bench.chaos.outcome import Outcome
from bench.chaos.page import availability as availability_section
from bench.chaos.page import dots_of
from bench.chaos.part import UNDER_WAY
from bench.chaos.state import State
from bench.chaos.table import ALL, cells, rows
from bench.swarm.counted.counting import figures_of
from bench.swarm.planning.plan import SLEEP
from storage.history.calls import ANSWERED, CLOSED, Call, Fault, Gone, Row, history_of
from storage.history.judge.verdict import combined

S = 1_000_000
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25


def call(api: str, sent_s: float, ended_s: float, **fields: object) -> Call:
    base = Call("a#1", "c", api, int(sent_s * S), int(ended_s * S), ANSWERED, group_id="g", member_id="m-1")
    return base._replace(**fields)  # type: ignore[arg-type]


def beat(sent_s: float, ended_s: float | None = None, **fields: object) -> Call:
    fields = {"epoch": 5, "told_epoch": 5, "protocol": "consumer"} | fields
    return call("ConsumerGroupHeartbeat", sent_s, sent_s + 0.01 if ended_s is None else ended_s, **fields)


def fault(kind: str, began_s: float, ended_s: float, detail: str = "") -> Fault:
    return Fault(kind, "somebody", int(began_s * S), int(ended_s * S), detail=detail)


KILL, SLOW = fault("kill-leader", 10, 10.5), fault("links-slow", 20, 22)


def found(*rows_of_history: Row) -> Availability:
    history = history_of([beat(1, epoch=0), KILL, SLOW, *rows_of_history, beat(40)])
    return availability(history, figures_of(history))


def test_time_without_service_counts_from_the_lost_request_to_the_next_one_served() -> None:
    """Between them the group was told twice to look elsewhere."""
    lost = beat(10.2, 10.2, outcome=CLOSED)
    moved = [beat(at_s, error_code=NOT_COORDINATOR) for at_s in (10.4, 10.6)]
    [harm] = found(beat(9), lost, *moved, beat(11.0, 11.2), beat(12)).harms
    assert (harm.kind, harm.group_id, harm.without_us, harm.refused) == ("kill-leader", "g", 1_000_000, 3)


def test_a_leader_that_answers_late_was_not_there() -> None:
    """A leader that is frozen refuses no request: they wait until they time out."""
    [harm] = found(beat(19), call("OffsetCommit", 20.5, 23.5), beat(24)).harms
    assert (harm.kind, harm.without_us, harm.refused) == ("links-slow", 3_000_000, 0)


def test_a_request_sent_before_the_fault_that_lost_it_is_put_down_to_that_fault() -> None:
    [harm] = found(beat(19), call("OffsetCommit", 19.99, 21.0, outcome=CLOSED), beat(21.4, 21.5)).harms
    assert (harm.kind, harm.without_us, harm.refused) == ("links-slow", 1_500_000, 1)


def test_what_a_client_gave_up_by_itself_was_not_refused() -> None:
    """The client closed its connection with a request under way: it was about to leave or to crash."""
    leaver = beat(9, client="b#1", epoch=5), beat(11, 11.2, client="b#1", outcome=CLOSED)
    leaves = beat(11.3, client="b#1", epoch=-1)
    crashed = beat(9, client="c#1", epoch=5), beat(11, 11.2, client="c#1", outcome=CLOSED)
    assert found(*leaver, leaves, *crashed, Gone("c#1", int(11.2 * S)), beat(12)).harms == ()
    assert [harm.refused for harm in found(*leaver, beat(12)).harms] == [1]


def test_a_member_that_the_swarm_sends_to_sleep_is_no_fault() -> None:
    """Lost requests while a member sleeps are put down to the fault before."""
    asleep = fault(SLEEP, 10.1, 14)
    told = found(beat(9), asleep, call("OffsetCommit", 10.5, 11.0, outcome=CLOSED), beat(11.4, 11.5))
    assert [each.kind for each in told.faults] == ["kill-leader", "links-slow"]
    assert [harm.kind for harm in told.harms] == ["kill-leader"]


def test_before_the_first_fault_nothing_is_put_down_to_any() -> None:
    assert found(beat(5, 5, outcome=CLOSED), beat(6)).harms == ()


def test_lost_memberships_and_the_rebalances_that_follow_are_counted() -> None:
    fenced = beat(11, error_code=UNKNOWN_MEMBER_ID)
    back = beat(11.1, epoch=0, told_epoch=7)
    [harm] = found(beat(9), fenced, back, beat(12, told_epoch=7, epoch=7)).harms
    assert (harm.kind, harm.members_lost, harm.rebalances) == ("kill-leader", 1, 1)


def test_rebalances_of_groups_whose_members_come_and_go_by_themselves_are_not() -> None:
    newcomer = beat(11, epoch=0, told_epoch=6, client="b#1", member_id="m-2")
    assert found(beat(9), newcomer, beat(12, told_epoch=6)).harms == ()
    crashed = beat(4, epoch=0, client="b#1", member_id="m-2", session_timeout_ms=6_500)
    assert found(crashed, Gone("b#1", 5 * S), beat(11.6, told_epoch=6)).harms == ()


def test_a_fault_is_written_down_twice_and_counts_once() -> None:
    """A run that is cut off leaves the one that was under way."""
    cut_off = fault("kill-all", 30, 33, UNDER_WAY)
    began = fault("links-slow", 20, 25, UNDER_WAY)
    assert history_of([began, SLOW, cut_off]).faults == (SLOW, cut_off)


def test_the_table_has_a_row_for_each_kind_and_one_of_all() -> None:
    lost = call("OffsetCommit", 10.5, 11.0, outcome=CLOSED)
    first = found(beat(9), lost, beat(12.4, 12.5))
    table = rows([first, found()])
    assert [row.kind for row in table] == ["kill-leader", "links-slow", ALL]
    assert cells(table[0]) == ("kill-leader", "2", "1 of 2", "2.00", "2.00", "2.00", "1", "0", "0")
    assert cells(table[1])[:4] == ("links-slow", "2", "0 of 2", "-")
    assert cells(table[2])[:3] == (ALL, "4", "1 of 4")
    assert rows([]) == []


def test_the_chart_tells_what_the_table_beside_it_tells() -> None:
    """The table once told the lower median of an even number of groups, and the chart marked the higher."""
    first = found(beat(9), call("OffsetCommit", 10.5, 11.0, outcome=CLOSED), beat(11.1, 11.2))
    second = found(beat(9), call("OffsetCommit", 10.5, 11.0, outcome=CLOSED), beat(11.6, 11.7))
    for row in (table := rows([first, second])):
        assert len(row.each_ms) + row.never == row.groups_hit
    dots = dots_of(table)
    assert dots.keys() == {"kill-leader"}, "the groups of all other rows were not hit"
    assert len(dots["kill-leader"].each_ms) == 2
    assert dots["kill-leader"].median_ms == table[0].without.p50_ms == dots["kill-leader"].each_ms[0]
    assert f"{dots['kill-leader'].each_ms[1] / 1000:.2f}" == cells(table[0])[5]


def test_as_many_faults_are_told_as_the_table_has(tmp_path: Path) -> None:
    """The one during which a run was interrupted was in the table, but not in the sentence below."""
    scenario = scenarios.load("short", KINDS)
    table = rows([found(fault("kill-all", 30, 33, UNDER_WAY))])
    outcome = Outcome(State(scenario=scenario, seed=1, steps=2), combined([]), table, tmp_path, 1)
    assert outcome.done.startswith("3 faults, ")
    assert table[-1].faults == 3


def test_a_group_that_is_never_served_again_is_the_worst_of_all() -> None:
    """Once such a group was left out of the table, so the table looked better the more groups had died."""
    served = found(beat(9), call("OffsetCommit", 20.5, 26.0, outcome=CLOSED), beat(27.9, 28))
    dead = history_of([beat(1), KILL, SLOW, beat(9), *(beat(s, s, outcome=CLOSED) for s in (9.999, 12, 25))])
    lost = availability(dead, figures_of(dead))
    assert [(harm.kind, harm.never) for harm in lost.harms if harm.never] == [("kill-leader", 1)]
    table = rows([served, lost])
    assert [row.kind for row in table] == ["kill-leader", "links-slow", ALL]
    assert cells(table[0])[2:6] == ("1 of 2", "never", "never", "never")
    assert cells(table[2])[2:6] == ("2 of 4", "7.50", "never", "never")
    assert table[2].plain()["never"] == 1
    assert (dots_of(table)["kill-leader"].median_ms, dots_of(table)["kill-leader"].never) == (None, 1)
    assert "kill-leader (1 never)" in availability_section([served, lost]).html
