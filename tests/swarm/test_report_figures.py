"""Figures of a swarm, against histories of which the answers are known."""

from __future__ import annotations

from typing import Any

import pytest

from bench.swarm.counted.columns import spread
from bench.swarm.counted.counting import figures_of
from bench.swarm.counted.figures import Figures, GroupFigures
from storage.history.calls import TIMED_OUT, Fault, history_of
from storage.history.judge.service import Planned
from storage.history.judge.verdict import judge
from tests.history.telling import Telling
from tests.swarm.histories import Story, World


def told(telling: Telling, end_ms: int | None = None) -> Figures:
    return figures_of(telling.history(end_ms), 0)


def only(figures: Figures) -> GroupFigures:
    (group,) = figures.groups
    return group


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_a_world_made_up_is_what_its_figures_say(seed: int) -> None:
    story = Story(World(seed=seed))
    planted, figures = story.planted, figures_of(story.history(), story.world.began_us)
    found = {group.group_id: group for group in figures.groups}
    assert {name: group.rebalances for name, group in found.items()} == planted.rebalances
    assert {name: group.moved for name, group in found.items()} == planted.moved
    assert {name: group.commits for name, group in found.items()} == planted.commits
    assert {name: group.lost for name, group in found.items() if group.lost} == planted.lost_calls
    gaps = {gap.group_id: gap.length_us for gap in figures.gaps}
    assert gaps == planted.gap_us
    assert {name: group.stable_ms for name, group in found.items()} == {
        name: stable_us / 1e3 for name, stable_us in planted.stable_us.items()
    }


def test_the_made_up_world_breaks_no_promise() -> None:
    story = Story(World())
    history = history_of([*story.rows, *story.final_reads()])._replace(ended_us=story.end_us)
    verdict = judge(history, planned=Planned(requests=300, member_s=900))
    assert verdict.is_fine, verdict.violations


def test_totals_are_the_sums_of_groups_and_apis() -> None:
    story = Story(World())
    figures = figures_of(story.history(), story.world.began_us)
    totals = figures.totals
    assert totals.requests == sum(api.requests for api in figures.apis)
    assert totals.requests == sum(group.requests for group in figures.groups)
    assert totals.lost == sum(story.planted.lost_calls.values())
    assert (totals.moved, totals.commits) == (
        sum(story.planted.moved.values()),
        sum(story.planted.commits.values()),
    )
    assert totals.duration_s == story.world.seconds
    assert totals.answered + totals.lost == totals.requests


def test_seconds_show_members_faults_and_rates_where_they_were() -> None:
    world = World(classic_groups=1, consumer_groups=1)
    story = Story(world)
    seconds = figures_of(story.history(), world.began_us).seconds
    assert len(seconds.settled) == world.seconds
    assert (seconds.settled[10], seconds.settled[-1]) == (2 * world.members, 2 * (world.members - 1))
    assert seconds.rebalancing[10] == seconds.rebalancing[-1] == 0
    fault = range(int(world.fault_s), int(world.fault_s + world.fault_for_s))
    assert [seconds.without_coordinator[second] for second in fault] == [2, 2]
    assert seconds.without_coordinator[10] == seconds.without_coordinator[-1] == 0
    assert sum(seconds.requests_s) == len(story.history().calls)
    assert sum(seconds.rebalances) == sum(story.planted.rebalances.values())


def test_a_run_of_many_hours_is_told_in_longer_steps() -> None:
    telling = Telling()
    telling.beat("a", 1_000, 1_001, 1)
    seconds = told(telling, 10 * 3_600_000).seconds
    assert seconds.step_s == 5
    assert len(seconds.requests_s) == 7_200


def test_rebalance_lasts_from_the_first_sign_to_the_last_settled_answer() -> None:
    telling = Telling()
    for client in ("a", "b"):
        telling.join(client, 0, 50, 1)
        telling.sync(client, 60, 80, 1, 0)
    telling.beat("a", 7_000, 7_010, 1, error=27)
    telling.join("c", 7_005, 8_000, 2)
    telling.join("a", 7_020, 8_000, 2)
    telling.join("b", 7_900, 8_000, 2)
    for client, until in (("a", 8_050), ("b", 8_070), ("c", 8_060)):
        telling.sync(client, 8_001, until, 2, 0)
    figures = told(telling)
    assert [(each.epoch, each.length_us) for each in figures.rebalances] == [
        (1, 80_000),
        (2, (8_070 - 7_005) * 1_000),
    ]
    assert only(figures).stable_ms == 80.0


def started(telling: Telling) -> None:
    """Two of KIP-848 at epoch 2, at rest after three seconds."""
    telling.topic(2)
    telling.consumer_beat("a", 1_000, 1_010, (0, 1), assigned=(0, 1))
    telling.consumer_beat("b", 1_500, 1_510, (0, 2), assigned=())
    telling.consumer_beat("a", 2_000, 2_010, (1, 1), assigned=(0,))
    telling.consumer_beat("a", 2_020, 2_030, (1, 2), owned=(0,))


def redeployed(telling: Telling, from_ms: int) -> None:
    """Tell of members that leave and come back again and again: the group is never quiet for five seconds."""
    epoch = 2
    for at in range(from_ms, 40_000, 4_000):
        telling.consumer_beat("b", at, at + 10, (-1, -1))
        telling.consumer_beat("a", at + 1_000, at + 1_010, (epoch, epoch + 1), assigned=(0, 1))
        telling.consumer_beat("b", at + 2_000, at + 2_010, (0, epoch + 2), assigned=())
        telling.consumer_beat("a", at + 2_500, at + 2_510, (epoch + 1, epoch + 1), assigned=(0,))
        telling.consumer_beat("a", at + 2_520, at + 2_530, (epoch + 1, epoch + 2), owned=(0,))
        telling.consumer_beat("b", at + 3_000, at + 3_010, (epoch + 2, epoch + 2), assigned=(1,))
        epoch += 2


def test_group_that_is_redeployed_soon_after_its_start_was_stable_before() -> None:
    telling = Telling()
    started(telling)
    telling.consumer_beat("b", 3_000, 3_010, (2, 2), assigned=(1,))
    redeployed(telling, 5_000)
    assert only(told(telling)).stable_ms == 2_010.0


def test_group_whose_member_leaves_before_all_is_owned_was_not_stable_then() -> None:
    """All are at one epoch, and b has its partition to come."""
    telling = Telling()
    started(telling)
    redeployed(telling, 2_500)
    assert only(told(telling)).stable_ms == 2_500 + 3_010 - 1_000


def test_crash_and_growing_topics_are_no_part_of_the_start_either() -> None:
    crashed, grown = Telling(), Telling()
    for telling in (crashed, grown):
        started(telling)
        telling.consumer_beat("b", 3_000, 3_010, (2, 2), assigned=(1,))
    crashed.gone("b", 4_000)
    crashed.consumer_beat("b#2", 6_000, 6_010, (0, 3), assigned=())
    crashed.consumer_beat("a", 7_000, 7_010, (2, 3), assigned=(0,))
    grown.topic(3, 4_000)
    grown.consumer_beat("a", 6_000, 6_010, (2, 3), assigned=(0, 2))
    assert only(told(crashed)).stable_ms == only(told(grown)).stable_ms == 2_010.0


def test_quiet_group_whose_members_are_at_different_epochs_is_not_stable() -> None:
    """All have joined; the first one owns everything until its next heartbeat."""
    telling = Telling()
    telling.topic(2)
    telling.consumer_beat("a", 1_000, 1_010, (0, 1), assigned=(0, 1))
    telling.consumer_beat("b", 1_100, 1_110, (0, 2), assigned=())
    telling.consumer_beat("c", 1_200, 1_210, (0, 3), assigned=())
    telling.consumer_beat("a", 7_000, 7_010, (1, 4), assigned=(0,))
    telling.consumer_beat("b", 8_000, 8_010, (2, 4), assigned=(1,))
    telling.consumer_beat("c", 9_000, 9_010, (3, 4))
    assert only(told(telling)).stable_ms == 8_010.0


def test_group_in_which_members_still_join_is_not_stable_yet() -> None:
    telling = Telling()
    started(telling)
    telling.consumer_beat("b", 3_000, 3_010, (2, 2), assigned=(1,))
    telling.consumer_beat("c", 7_000, 7_010, (0, 3), assigned=())
    for client, number in (("a", 0), ("b", 1)):
        telling.consumer_beat(client, 8_000, 8_010, (2, 3), assigned=(number,))
    assert only(told(telling)).stable_ms == 7_010.0


def test_rebalance_that_the_next_one_overtakes_has_no_length() -> None:
    telling = Telling()
    telling.join("a", 0, 50, 1)
    telling.sync("a", 60, 70, 1, 0, error_code=27)
    telling.join("a", 80, 100, 2)
    telling.sync("a", 110, 120, 2, 0)
    figures = told(telling)
    assert [(each.epoch, each.length_us) for each in figures.rebalances] == [(1, None), (2, 50_000)]
    assert (only(figures).rebalances, only(figures).unsettled, only(figures).stable_ms) == (2, 1, 120.0)


def test_static_member_that_comes_back_makes_no_rebalance_longer() -> None:
    """KIP-345: it is told the generation that there is."""
    telling = Telling()
    telling.join("a#1", 0, 50, 1)
    telling.sync("a#1", 60, 80, 1, 0, group_instance_id="a")
    telling.gone("a#1", 5_000)
    telling.join("a#2", 20_000, 20_010, 1)
    telling.sync("a#2", 20_020, 20_030, 1, 0, group_instance_id="a")
    figures = told(telling)
    assert [each.length_us for each in figures.rebalances] == [80_000]
    assert only(figures).moved == 0


def test_epoch_after_a_leave_begins_with_the_leave() -> None:
    telling = Telling()
    for client in ("a", "b"):
        telling.consumer_beat(client, 0, 10, (0, 1), assigned=(0,) if client == "a" else (1,))
    telling.consumer_beat("b", 9_000, 9_010, (-1, -1))
    telling.consumer_beat("a", 11_000, 11_010, (1, 2), assigned=(0, 1))
    figures = told(telling)
    assert [(each.epoch, each.length_us) for each in figures.rebalances] == [(1, 10_000), (2, 2_010_000)]
    assert only(figures).moved == 1


def test_member_that_gives_up_partitions_is_not_settled_until_it_has() -> None:
    telling = Telling()
    telling.consumer_beat("a", 0, 10, (0, 1), assigned=(0, 1))
    telling.consumer_beat("a", 3_000, 3_010, (1, 1), assigned=(0,))
    telling.consumer_beat("a", 5_000, 5_010, (1, 2), owned=(0,))
    figures = told(telling, 7_000)
    assert figures.seconds.settled == [1, 1, 1, 0, 0, 1, 1]
    assert figures.seconds.rebalancing == [0, 0, 0, 1, 1, 0, 0]
    assert [(each.epoch, each.length_us) for each in figures.rebalances][-1] == (2, 2_000_000)


def test_membership_is_lost_once_however_often_it_is_told() -> None:
    telling = Telling()
    telling.join("a", 0, 50, 1)
    telling.sync("a", 60, 80, 1, 0)
    telling.beat("a", 1_000, 1_010, 1, error=25)
    telling.beat("a", 1_020, 1_030, 1, error=25)
    telling.join("a", 1_040, 1_050, 2)
    assert only(told(telling)).members_lost == 1


def test_news_are_no_refusals() -> None:
    telling = Telling()
    telling.join("a", 0, 50, 1, error=79)
    telling.beat("a", 60, 70, 1, error=27)
    telling.beat("a", 80, 90, 1, error=22)
    figures = told(telling)
    assert (figures.totals.news, figures.totals.refused) == (2, 1)
    assert figures.errors == {"MEMBER_ID_REQUIRED": 1, "REBALANCE_IN_PROGRESS": 1, "ILLEGAL_GENERATION": 1}


def gap_of(*calls: dict[str, Any]) -> list[tuple[int, int, bool]]:
    telling = Telling()
    telling.beat("a", 0, 10, 1)
    for fields in calls:
        telling.call(client="a", **{"outcome": "answered", **fields})
    return [(gap.began_us, gap.ended_us, gap.is_served_again) for gap in told(telling).gaps]


def test_without_coordinator_from_the_first_failure_to_the_next_answer() -> None:
    refused = {"sent_us": 100_000, "ended_us": 101_000, "error_code": 16}
    again = {"sent_us": 200_000, "ended_us": 203_000, "error_code": 15}
    found = {"sent_us": 210_000, "ended_us": 211_000, "api": "FindCoordinator"}
    served = {"sent_us": 300_000, "ended_us": 301_000}
    assert gap_of(refused, again, found, served) == [(100_000, 301_000, True)]


def test_join_that_waited_with_a_coordinator_there_begins_a_gap_when_it_fails() -> None:
    lost_join = {"sent_us": 1_000, "ended_us": 5_000_000, "api": "JoinGroup", "outcome": "closed"}
    last = {"sent_us": 4_000_000, "ended_us": 4_001_000}
    served = {"sent_us": 6_000_000, "ended_us": 6_001_000}
    assert gap_of(lost_join, last, served) == [(5_000_000, 6_001_000, True)]
    waits_again = {"sent_us": 5_100_000, "ended_us": 5_900_000, "api": "JoinGroup"}
    assert gap_of(lost_join, last, waits_again, served) == [(5_000_000, 5_100_000, True)]


def test_commit_that_a_frozen_leader_answers_late_is_a_gap() -> None:
    stalled = {"sent_us": 100_000, "ended_us": 2_500_000, "api": "OffsetCommit"}
    assert gap_of(stalled) == [(100_000, 2_500_000, True)]


def test_request_that_a_leaving_member_gives_up_is_not_lost() -> None:
    telling = Telling()
    telling.join("a", 0, 50, 1)
    telling.call(client="a", api="JoinGroup", sent_us=60_000, ended_us=900_000, outcome="closed")
    telling.call(client="a", api="LeaveGroup", sent_us=950_000, ended_us=951_000, outcome="answered")
    telling.call(client="b", api="JoinGroup", sent_us=960_000, ended_us=970_000, outcome="closed")
    telling.gone("b", 970)
    figures = told(telling)
    assert (figures.totals.lost, figures.totals.given_up, figures.gaps) == (0, 2, [])


def test_gap_that_nobody_saw_the_end_of_lasts_as_long_as_somebody_asked() -> None:
    first = {"sent_us": 1_000_000, "ended_us": 1_500_000, "outcome": "closed"}
    last = {"sent_us": 2_000_000, "ended_us": 32_000_000, "outcome": TIMED_OUT}
    assert gap_of(first, last) == [(1_000_000, 32_000_000, False)]


def test_fault_that_is_written_down_twice_is_one() -> None:
    history = Telling().history()
    begun = Fault("freeze", "partition-0-1", 1_000, 9_000, detail="under way")
    ended = begun._replace(ended_us=5_000, detail="")
    assert figures_of(history._replace(faults=(begun, ended)), 0).faults == (ended,)


def test_history_of_nothing_has_figures() -> None:
    figures = told(Telling())
    assert (figures.totals.requests, figures.groups, figures.stable.p50_ms) == (0, [], None)


def test_percentiles_are_values_that_were_there() -> None:
    found = spread([1_000 * value for value in range(1, 101)])
    assert (found.p50_ms, found.p90_ms, found.p99_ms, found.max_ms) == (50.0, 90.0, 99.0, 100.0)
