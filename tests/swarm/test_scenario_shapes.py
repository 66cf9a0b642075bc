"""Load shapes: what each does to its groups, alone and with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bench.swarm.planning import scenario
from bench.swarm.planning.plan import CRASH, CUT, GROW, LEAVE, SLEEP, START, Action, Plan
from bench.swarm.planning.scenario import Scenario
from bench.swarm.planning.shapes import (
    Autoscaler,
    CommitHeavy,
    CrashLoop,
    FlappingNetwork,
    JoinStorm,
    Ramp,
    RollingDeploy,
    Shape,
    SlowMember,
    Steady,
    TopicsGrowing,
)
from bench.swarm.planning.tables import GroupsTable, Protocol

SEEDS = range(5)


def plan_of(
    *shapes: Shape, groups: int = 3, members: int = 6, duration_s: float = 120.0, seed: int = 1
) -> Plan:
    table = GroupsTable(name="orders", count=groups, members=members, shapes=shapes)
    return Scenario(name="test", duration_s=duration_s, groups=(table,)).plan(seed)


def presence(plan: Plan) -> Iterator[tuple[Action, dict[str, set[str]]]]:
    """Yield each action with the members of each group that are there after it."""
    group_of = {member.name: member.group_id for member in plan.members}
    there: dict[str, set[str]] = {group_id: set() for group_id in group_of.values()}
    for action in plan.actions:
        if action.kind == START:
            there[group_of[action.subject]].add(action.subject)
        elif action.kind in (LEAVE, CRASH):
            there[group_of[action.subject]].remove(action.subject)
        yield action, there


def at_once(plan: Plan, from_s: float) -> tuple[int, int]:
    """The fewest and the most members of a group, from some time on; actions of one moment count together."""
    by_time: dict[float, list[int]] = {}
    for action, there in presence(plan):
        by_time[action.at_s] = [len(members) for members in there.values()]
    sizes = [size for at_s, counts in by_time.items() if at_s >= from_s for size in counts]
    return min(sizes), max(sizes)


@pytest.mark.parametrize("name", scenario.names())
@pytest.mark.parametrize("seed", SEEDS)
def test_a_ready_scenario_is_a_plan_that_can_be_carried_out(name: str, seed: int) -> None:
    plan = scenario.load(name).plan(seed)
    assert plan == scenario.load(name).plan(seed)
    assert plan.actions != scenario.load(name).plan(seed + 1).actions
    times = [action.at_s for action in plan.actions]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < plan.duration_s
    names = {member.name for member in plan.members}
    assert len(names) == len(plan.members)
    assert {action.subject for action in plan.actions if action.kind == START} == names
    topics = {topic.name for topic in plan.topics}
    assert all(topic in topics for member in plan.members for topic in member.topics)
    there: set[str] = set()
    for action in plan.actions:
        if action.kind == GROW:
            assert action.subject in topics
            continue
        assert (action.subject in there) != (action.kind == START), action
        if action.kind in (START, LEAVE, CRASH):
            there ^= {action.subject}


@pytest.mark.parametrize("name", scenario.names())
def test_a_ready_scenario_leaves_a_calm_end(name: str) -> None:
    chosen = scenario.load(name)
    last_s = max(action.at_s for action in chosen.plan(3).actions)
    assert last_s < chosen.duration_s - 15


def test_steady_members_come_and_stay() -> None:
    plan = plan_of(Steady(within_s=2))
    assert Counter(action.kind for action in plan.actions) == {START: 18}
    assert plan.actions[-1].at_s <= 2


def test_a_ramp_brings_one_after_the_other_and_takes_them_away_so() -> None:
    plan = plan_of(Ramp(up_s=36, down_s=18))
    starts = [action.at_s for action in plan.actions if action.kind == START]
    leaves = [action.at_s for action in plan.actions if action.kind == LEAVE]
    assert starts == [place * 2.0 for place in range(18)]
    assert leaves == [82.0 + place for place in range(18)]  # the calm end begins after 100 s


def test_a_ramp_that_has_little_time_to_go_down_is_down_before_the_calm_end() -> None:
    plan = plan_of(Ramp(up_s=90, down_s=60))
    leaves = [action.at_s for action in plan.actions if action.kind == LEAVE]
    assert (leaves[0], len(leaves)) == (90.0, 18)
    assert leaves[-1] < 100


def test_a_join_storm_is_one_moment_and_comes_again() -> None:
    plan = plan_of(JoinStorm(begin_s=2, within_s=0.2, every_s=30, away_s=5))
    storms = Counter(round(action.at_s) for action in plan.actions if action.kind == START)
    assert storms == {2: 18, 32: 18, 62: 18, 92: 18}
    leaves = Counter(action.at_s for action in plan.actions if action.kind == LEAVE)
    assert leaves == {27.0: 18, 57.0: 18, 87.0: 18}


@pytest.mark.parametrize("at_a_time", [1, 2, 4])
def test_a_rolling_deploy_takes_no_more_than_it_says_and_reaches_all(at_a_time: int) -> None:
    plan = plan_of(RollingDeploy(begin_s=10, at_a_time=at_a_time, away_s=2, pause_s=3))
    assert at_once(plan, from_s=5) == (6 - at_a_time, 6)
    left = {action.subject for action in plan.actions if action.kind == LEAVE}
    assert left == {member.name for member in plan.members}


def test_a_rolling_deploy_with_static_ids_restarts_the_same_instances() -> None:
    plan = scenario.load("rolling-deploy-static").plan(1)
    assert all(member.instance_id == member.name for member in plan.members)
    assert all(member.instance_id is None for member in scenario.load("rolling-deploy").plan(1).members)


def test_a_crash_loop_is_of_a_few_members_and_nobody_leaves() -> None:
    plan = plan_of(CrashLoop(members=2, up_s=8, away_s=2))
    kinds = Counter(action.kind for action in plan.actions)
    crashed = {action.subject for action in plan.actions if action.kind == CRASH}
    assert LEAVE not in kinds
    assert len(crashed) == 6
    assert kinds[START] - 18 == kinds[CRASH] >= 6 * 4


@pytest.mark.parametrize(
    ("session_ms", "protocol", "last_s"), [(10_000, "range", 150), (6_000, "consumer", 115)]
)
def test_the_session_of_the_last_that_crashed_ends_before_the_calm_end(
    session_ms: int, protocol: Protocol, last_s: float
) -> None:
    shapes = (CrashLoop(up_s=8, away_s=2),)
    table = GroupsTable(
        name="a", count=9, members=2, protocols={protocol: 1}, session_timeout_ms=session_ms, shapes=shapes
    )
    plan = Scenario(name="test", duration_s=180, groups=(table,)).plan(1)
    crashes = [action.at_s for action in plan.actions if action.kind == CRASH]
    assert last_s - 10 < max(crashes) <= last_s


def test_a_short_crash_loop_has_half_of_its_time_to_crash_in() -> None:
    plan = plan_of(CrashLoop(begin_s=2, up_s=2, away_s=1), duration_s=40)
    crashes = [action.at_s for action in plan.actions if action.kind == CRASH]
    assert 13 < max(crashes) <= 16


def test_an_autoscaler_keeps_its_few_and_reaches_all() -> None:
    plan = plan_of(Autoscaler(low=0.5, period_s=40))
    assert at_once(plan, from_s=3) == (3, 6)
    ever = {action.subject for action in plan.actions if action.kind == LEAVE}
    assert len(ever) == 9


def test_a_slow_member_takes_longer_than_it_may() -> None:
    plan = plan_of(SlowMember(members=1, beyond_s=5, every_s=70), duration_s=300)
    sleeps = [action for action in plan.actions if action.kind == SLEEP]
    assert len(sleeps) >= 6
    assert {action.value for action in sleeps} == {65.0}  # max.poll.interval.ms is a minute
    assert len({action.subject for action in sleeps}) == 3


def test_a_flapping_network_cuts_some_connections_and_changes_no_membership() -> None:
    plan = plan_of(FlappingNetwork(share=0.5, every_s=10))
    cuts = [action for action in plan.actions if action.kind == CUT]
    assert {action.kind for action in plan.actions} == {START, CUT}
    assert len(cuts) == 9 * 9  # half of 18 members, nine times until the calm end
    assert len({action.subject for action in cuts}) > 9


def test_commit_heavy_members_commit_more_and_do_nothing_else() -> None:
    plan = plan_of(Steady(), CommitHeavy(interval_ms=100, partitions_max=7))
    assert {(member.commit_interval_ms, member.commit_partitions_max) for member in plan.members} == {
        (100, 7)
    }
    assert plan.actions == plan_of(Steady()).actions


def test_topics_only_grow_and_not_for_ever() -> None:
    plan = plan_of(TopicsGrowing(by=5, every_s=10, partitions_max=30))
    sizes: dict[str, list[float]] = {}
    for action in plan.actions:
        if action.kind == GROW:
            sizes.setdefault(action.subject, []).append(action.value)
    assert sizes == {topic.name: [17, 22, 27] for topic in plan.topics}


def test_members_come_by_themselves_if_no_shape_brings_them() -> None:
    assert plan_of(CrashLoop()) == plan_of(Steady(), CrashLoop())


def test_one_more_shape_does_not_move_what_the_others_do() -> None:
    alone = plan_of(Steady(), RollingDeploy())
    together = plan_of(Steady(), FlappingNetwork(), RollingDeploy())
    assert [action for action in together.actions if action.kind != CUT] == list(alone.actions)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_deploy_brings_nobody_back_whom_the_autoscaler_took_away(seed: int) -> None:
    scaled = Autoscaler(low=0.5, period_s=30)
    alone, together = (
        plan_of(*shapes, duration_s=600, seed=seed)
        for shapes in ((scaled,), (scaled, RollingDeploy(at_a_time=2, pause_s=1, rest_s=1)))
    )
    scaled_to = {action.at_s: len(there["orders-0"]) for action, there in presence(alone)}
    for action, there in presence(together):
        at_s = max(time for time in scaled_to if time <= action.at_s)
        assert len(there["orders-0"]) <= scaled_to[at_s]
