"""What happened is counted alike, whoever told of it, and set side by side."""

from __future__ import annotations

import pytest

from bench.swarm.replay.beside import ALL, beside, lines, plain, section
from bench.swarm.replay.counts import Counts, of_recording, together
from bench.swarm.replay.record import Window, of_record
from storage.history.calls import Call, End, Gone, history_of
from tests.swarm.histories import S, Story, World
from tests.swarm.replay.recordings import Events


def busy() -> Events:
    events = Events("consumer")
    for at_s, member in ((-50, "a"), (10, "b"), (20, "c")):
        events.joined(at_s, "billing", member)
    events.rebalanced(10.4, "billing", 0.4, cause="member joined", moved=3)
    events.rebalanced(22, "billing", 2, cause="member joined", moved=4)
    events.left(40, "billing", "b")
    events.rebalanced(40.6, "billing", 0.6, cause="member left", moved=2)
    events.expired(70, "billing", "c")
    events.committed("billing", 120, 360)
    return events


def test_recorded_events_are_counted_within_the_period() -> None:
    [counts] = of_recording(busy().recording(0, 60)).values()
    assert counts == Counts(
        groups=1,
        members=3,
        joins=2,
        leaves=1,
        expired=0,
        fenced=0,
        by_cause={"member joined": 2, "member left": 1},
        rebalances=3,
        durations_ms=(400, 2_000, 600),
        unstable_ms=3_000,
        commits=120,
        offsets=360,
        moved=9,
        span_ms=60_000,
    )
    assert counts.commits_s == 2
    assert (counts.duration_ms(0.5), counts.duration_ms(0.99)) == (600, 2_000)


def test_a_rebalance_that_the_period_cuts_counts_where_it_began() -> None:
    events = busy()
    first = of_recording(events.recording(0, 21))["billing"]
    second = of_recording(events.recording(21, 60))["billing"]
    assert (first.rebalances, second.rebalances) == (2, 1)
    assert first.unstable_ms + second.unstable_ms == 3_000


def test_what_a_swarm_recorded_is_counted_as_it_was_made_up() -> None:
    """The little world knows its answers: members join at the beginning, one of each group leaves."""
    story = Story(World(faulted_groups=0))
    window = Window(story.world.began_us, story.end_us)
    found = of_record(story.history(), window)
    assert len(found) == 4
    for group_id, counts in found.items():
        assert (counts.joins, counts.leaves, counts.members) == (4, 1, 4), group_id
        assert counts.commits == story.planted.commits[group_id]
        assert counts.rebalances == story.planted.rebalances[group_id]
    later = of_record(story.history(), window._replace(began_us=story.world.began_us + 10 * S))
    assert together(later.values()).joins == 0
    assert together(later.values()).leaves == 4


def test_a_member_that_crashed_while_its_join_waited_had_joined() -> None:
    """The coordinator has taken it in, and removes it when its session has ended."""
    named = {"group_id": "billing", "member_id": "m", "protocol": "classic"}
    call = Call("a#1", "c", "JoinGroup", 2 * S, ended_us=3 * S, outcome="closed", **named)
    history = history_of([call, Gone("a#1", 3 * S), End(60 * S, True)])
    counts = of_record(history, Window(0, 60 * S))["billing"]
    assert (counts.joins, counts.expired) == (1, 1)


def test_a_static_member_that_comes_back_is_one_member_at_a_time() -> None:
    """Once each of its lives counted until the end: a group of six had 66 members at a time."""
    named = {"group_id": "billing", "protocol": "consumer", "group_instance_id": "i", "outcome": "answered"}
    calls = [
        Call(
            f"a#{life}", "c", "ConsumerGroupHeartbeat", at_s * S, ended_us=at_s * S + 1, epoch=epoch, **named
        )
        for life, at_s, epoch in ((1, 2, 0), (1, 10, -2), (2, 12, 0), (2, 20, -2))
    ]
    counts = of_record(history_of([*calls, End(60 * S, True)]), Window(0, 70 * S))["billing"]
    assert (counts.members, counts.joins, counts.leaves) == (1, 2, 0)
    assert counts.expired == 1, "the second life has no next one"


def test_then_and_now_stand_side_by_side_with_copies_together() -> None:
    then = of_recording(busy().recording(0, 60))
    now = {"x-billing": then["billing"], "x-billing~2": then["billing"]}
    groups = dict.fromkeys(now, "billing")
    found = beside(then, now, groups, ["a remark"])
    assert [part.name for part in found.parts] == [ALL, "billing"]
    cells = {row.label: row.cells for row in found.parts[0].rows}
    assert cells["joins"] == ("joins", "2", "4", "2.00")
    assert cells["commits"] == ("commits", "120", "240", "2.00")
    assert cells["rebalance, p99"] == ("rebalance, p99", "2.00 s", "2.00 s", "1.00")
    assert cells["  member left"] == ("  member left", "1", "2", "2.00")
    assert ("  joins", "2", "4", "2.00") in lines(found)
    assert plain(found)["parts"][1]["name"] == "billing"
    assert "billing" in section(found).html


def test_what_nobody_knows_is_a_dash() -> None:
    then = of_recording(busy().recording(0, 60))
    now = {"x": then["billing"]._replace(by_cause=None, moved=None, fenced=None)}
    cells = {row.label: row.cells for row in beside(then, now, {"x": "billing"}).parts[0].rows}
    assert cells["partitions moved"] == ("partitions moved", "9", "-", "")
    assert cells["  member left"] == ("  member left", "1", "-", "")


def test_a_group_that_did_not_come_is_there_with_nothing() -> None:
    then = of_recording(busy().recording(0, 60))
    found = beside(then, {}, {"x": "billing"})
    assert {row.label: row.now for row in found.parts[1].rows}["joins"] == 0


def test_sums_keep_causes_and_durations() -> None:
    counts = of_recording(busy().recording(0, 60))["billing"]
    both = together([counts, counts])
    assert both.by_cause == {"member joined": 4, "member left": 2}
    assert both.commits_s == pytest.approx(4)
    assert len(both.durations_ms) == 6
