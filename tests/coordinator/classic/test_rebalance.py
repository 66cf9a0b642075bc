"""The join phase: its initial delay, which members it waits for and how long, and which of them leads (B3,
B4, C1, C10 to C16, C19)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicGroup,
    GroupState,
    Step,
)
from actors.coordinator.classic.protocols import winner
from actors.coordinator.classic.state import stored_groups
from actors.coordinator.ground.batching import ALONE_MS, PAUSE_MS_MAX
from actors.coordinator.told.events import MemberExpired, RebalanceBegan, RebalanceEnded
from actors.ground.settings import GroupSettings
from actors.protocol.messages import JoinGroupResponse
from tests.coordinator.classic.driver import BATCHING, GROUP, REBALANCE_MS, SESSION_MS, START_MS, Driver

ROUNDING_MS = 16
"""Timers may fire late by up to this time, a slot of the timer wheel."""


def test_transitions_are_kafkas() -> None:
    """C1: each state has the same predecessors as in Kafka."""
    into: dict[GroupState, set[GroupState]] = {state: set() for state in GroupState}
    for (before, _), after in TRANSITIONS.items():
        into[after].add(before)
    assert into == {
        EMPTY: {PREPARING_REBALANCE},
        PREPARING_REBALANCE: {STABLE, COMPLETING_REBALANCE, EMPTY},
        COMPLETING_REBALANCE: {PREPARING_REBALANCE},
        STABLE: {COMPLETING_REBALANCE},
        DEAD: {EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE},
    }


def test_illegal_step_tells_the_groups_story() -> None:
    """C1: a transition that the table does not have is a bug, and the error names the group."""
    with pytest.raises(AssertionError, match=r"'g1': no way from Empty .* by 'leader synced'"):
        ClassicGroup("g1", 0).move(Step.LEADER_SYNCED, 0)


def test_three_members_meet_in_the_initial_delay() -> None:
    """C10, B3: newcomers extend the delay. All three members are in generation 1, and only the leader gets
    the list of them."""
    driver = Driver(GroupSettings())
    tokens = [driver.new_member(client_id="a")]
    driver.advance(2_000)
    tokens.append(driver.new_member(client_id="b"))
    driver.advance(3_500)
    assert driver.waits(tokens[0])
    tokens.append(driver.new_member(client_id="c"))
    driver.advance(3_000)
    assert driver.waits(tokens[0])
    driver.advance(600)
    answers = [driver.joined(token) for token in tokens]
    assert [(answer.generation_id, len(answer.members)) for answer in answers] == [(1, 3), (1, 0), (1, 0)]
    assert {answer.leader for answer in answers} == {answers[0].member_id}


def test_initial_delay_without_newcomers_runs_once() -> None:
    """C10: all members have joined from the start, and still the group waits for the delay, but no longer."""
    driver = Driver(GroupSettings())
    token = driver.new_member()
    driver.advance(2_999)
    assert driver.waits(token)
    driver.advance(1 + ROUNDING_MS)
    assert driver.joined(token).generation_id == 1


def test_initial_delay_never_passes_the_rebalance_timeout() -> None:
    """C10: a rebalance timeout of 7 s allows delays of 3 s, 3 s and 1 s."""
    driver = Driver(GroupSettings())
    first = driver.new_member(rebalance_timeout_ms=7_000)
    for _ in range(6):
        driver.advance(1_000)
        driver.new_member(rebalance_timeout_ms=7_000)
    driver.advance(1_000 + 4 * ROUNDING_MS)
    assert driver.joined(first).generation_id == 1
    assert len(driver.joined(first).members) == 7


def test_pending_members_do_not_hold_back_the_initial_rebalance() -> None:
    """C8: four ids were given out, and the first client that comes back gets generation 1 at once."""
    driver = Driver()
    ids = [driver.joined(driver.join()).member_id for _ in range(4)]
    assert driver.joined(driver.join(ids[0])).generation_id == 1


def test_with_batching_the_first_rebalance_waits_a_moment_for_others() -> None:
    """Members that come together are in generation 1, whether the first one has its member id before the
    others or not; one that comes alone does not wait long."""
    driver = Driver(BATCHING)
    first = driver.new_member()
    others = [driver.joined(driver.join()).member_id for _ in range(3)]
    driver.advance(ALONE_MS + ROUNDING_MS)
    tokens = [first, *(driver.join(member_id) for member_id in others)]
    driver.advance(ALONE_MS + ROUNDING_MS)
    assert [driver.joined(token).generation_id for token in tokens] == [1, 1, 1, 1]
    alone = Driver(BATCHING)
    token = alone.new_member()
    alone.advance(ALONE_MS - 1)
    assert alone.waits(token)
    alone.advance(1 + ROUNDING_MS)
    assert alone.joined(token).generation_id == 1


def test_with_batching_the_first_few_wait_for_others_as_long_as_they_were_kept_waiting() -> None:
    """A client that takes long to come back with its id is on a busy machine, where others take as long to
    come at all."""
    driver = Driver(BATCHING)
    first_id = driver.joined(driver.join()).member_id
    driver.advance(5 * ALONE_MS)
    first = driver.join(first_id)
    driver.advance(4 * ALONE_MS)
    second = driver.new_member()
    driver.advance(5 * ALONE_MS - 1)
    assert driver.waits(second)
    driver.advance(1 + ROUNDING_MS)
    assert [driver.joined(token).generation_id for token in (first, second)] == [1, 1]


def test_with_batching_the_first_rebalance_waits_as_long_as_one_comes_after_the_other() -> None:
    """A thousand who join at once are one generation, though it takes a busy leader a second to hear them."""
    driver = Driver(BATCHING)
    late = driver.joined(driver.join()).member_id
    tokens = []
    while len(tokens) < 3 * PAUSE_MS_MAX // 10:
        tokens.append(driver.new_member())
        driver.advance(10)
    assert all(map(driver.waits, tokens))
    tokens.append(driver.join(late))
    driver.advance(PAUSE_MS_MAX)
    assert {driver.joined(token).generation_id for token in tokens} == {1}


def test_with_batching_the_first_rebalance_does_not_wait_long_for_a_member_id_that_is_not_used() -> None:
    driver = Driver(BATCHING)
    ids = [driver.joined(driver.join()).member_id for _ in range(2)]
    token = driver.join(ids[0])
    driver.advance(PAUSE_MS_MAX - 1)
    assert driver.waits(token)
    driver.advance(1 + ROUNDING_MS)
    assert driver.joined(token).generation_id == 1


def test_pending_member_holds_back_a_later_rebalance_until_it_expires() -> None:
    """C8: all members have rejoined; the end of the pending one's session timeout completes the join."""
    driver = Driver()
    [member] = driver.stable_group("a")
    pending = driver.joined(driver.join()).member_id
    token = driver.join(member)
    driver.advance(SESSION_MS - 1)
    assert driver.waits(token)
    driver.advance(1 + ROUNDING_MS)
    assert driver.joined(token).generation_id == 2
    assert driver.joined(driver.join(pending)).error_code == ErrorCode.unknown_member_id
    [expired] = [event for event in driver.events if isinstance(event, MemberExpired)]
    assert (expired.member_id, expired.cause) == (pending, "did not use its member id in time")
    assert expired.client_id is None


def test_pending_member_that_comes_back_completes_the_join() -> None:
    """C8: it is accepted in PreparingRebalance, and then no member is missing."""
    driver = Driver()
    [member] = driver.stable_group("a")
    pending = driver.joined(driver.join()).member_id
    first, second = driver.join(member), driver.join(pending)
    assert (driver.joined(first).generation_id, driver.joined(second).generation_id) == (2, 2)


def test_only_member_leaves_during_the_initial_delay() -> None:
    """C10: the group is PreparingRebalance without members until the delay is over, then Empty."""
    driver = Driver(GroupSettings())
    token = driver.new_member()
    driver.leave(next(iter(driver.group.members)))
    assert driver.joined(token) == JoinGroupResponse(ErrorCode.unknown_member_id)
    assert (driver.group.state, len(driver.group.members)) == (PREPARING_REBALANCE, 0)
    driver.advance(3_000 + ROUNDING_MS)
    assert (driver.group.state, driver.group.generation) == (EMPTY, 1)


def test_new_member_waits_five_minutes_not_its_session() -> None:
    """C12: its join is parked, so it cannot heartbeat; but a client that is gone is removed in the end."""
    driver = Driver()
    [old] = driver.stable_group("a", rebalance_timeout_ms=1_000_000)
    token = driver.new_member(rebalance_timeout_ms=1_000_000)
    for _ in range(299):
        driver.advance(1_000)
        driver.beat(old, 1)
    assert driver.waits(token)
    driver.advance(1_000 + ROUNDING_MS)
    assert driver.joined(token) == JoinGroupResponse(ErrorCode.unknown_member_id)
    assert list(driver.group.members) == [old]


def test_old_member_with_a_parked_join_does_not_expire() -> None:
    """C12: a waiting member is alive, and its session starts anew when it is answered."""
    driver = Driver()
    a, b = driver.stable_group("a", "b")
    token = driver.join(a)
    for _ in range(5):
        driver.advance(SESSION_MS - 1_000)
        driver.beat(b, driver.group.generation)
    assert driver.waits(token)
    driver.join(b)
    driver.advance(SESSION_MS - 1_000)
    assert driver.beat(a, driver.group.generation) == ErrorCode.none


def test_dynamic_member_that_does_not_rejoin_is_left_behind() -> None:
    """C13, B11: after the rebalance timeout the others go on, and another member leads."""
    driver = Driver()
    a, b = driver.stable_group("a", "b", session_timeout_ms=100_000)
    token = driver.join(b, protocols=(("range", b"new"),))
    driver.advance(REBALANCE_MS + ROUNDING_MS)
    answer = driver.joined(token)
    assert (answer.leader, [member[0] for member in answer.members]) == (b, [b])
    assert driver.beat(a, 2) == ErrorCode.unknown_member_id


def test_static_member_that_does_not_rejoin_stays() -> None:
    """C13: it is in the next generation and in the leader's list, but a member that rejoined leads."""
    driver = Driver()
    driver.join(instance="s")
    driver.sync_all()
    [static] = driver.group.members
    token = driver.new_member(session_timeout_ms=100_000)
    for _ in range(7):
        driver.advance(SESSION_MS - 1_000)
        driver.beat(static, 1)
    answer = driver.joined(token)
    assert [member[0] for member in answer.members] == [static, answer.member_id]
    assert answer.leader == answer.member_id


def test_absent_static_members_alone_put_off_the_join() -> None:
    """C13: no member rejoined. The join is tried again until the session timers remove them, then the group
    is Empty."""
    driver = Driver()
    driver.join(instance="s", session_timeout_ms=100_000)
    driver.sync_all()
    newcomer = driver.new_member()
    driver.leave(list(driver.group.members)[1])
    assert driver.joined(newcomer).error_code == ErrorCode.unknown_member_id
    driver.advance(REBALANCE_MS + ROUNDING_MS)
    assert (driver.group.state, len(driver.group.members)) == (PREPARING_REBALANCE, 1)
    driver.advance(REBALANCE_MS)
    assert (driver.group.state, driver.group.generation) == (EMPTY, 2)


def test_nobody_left_makes_an_empty_generation_on_record() -> None:
    """C13: the generation is one higher, there is no protocol and no leader, and the member's record is
    gone."""
    driver = Driver()
    [member] = driver.stable_group("a")
    driver.advance(500)
    driver.leave(member)
    stored = stored_groups(driver.state)[GROUP]
    assert stored.metadata == ("consumer", 2, None, None, START_MS + 500)
    assert stored.members == {}


def test_leader_that_leaves_is_followed_by_another() -> None:
    """C14: any other member may lead."""
    driver = Driver()
    leader, other = driver.stable_group("a", "b")
    driver.leave(leader)
    assert driver.group.leader == other


def test_votes_choose_among_what_all_support() -> None:
    """C15, B4: two members prefer roundrobin, one range; not all of them support sticky."""
    driver = Driver()
    range_first = (("sticky", b""), ("range", b""), ("roundrobin", b""))
    roundrobin_first = (("roundrobin", b""), ("range", b""))
    driver.new_member(protocols=range_first)
    second = driver.new_member(protocols=roundrobin_first)
    third = driver.new_member(protocols=roundrobin_first)
    driver.join(next(iter(driver.group.members)), protocols=range_first)
    assert driver.joined(second).protocol_name == "roundrobin"
    assert driver.joined(third).protocol_name == "roundrobin"


def test_tied_votes_fall_as_in_java() -> None:
    """C15: the winner is the first in the order of Java's HashMap, whatever the members' order."""
    for first, second in (
        ("a", "b"),
        ("range", "roundrobin"),
        ("range", "cooperative-sticky"),
        ("sticky", "range"),
    ):
        assert winner([first, second]) == winner([second, first]) == first
    many = [f"assignor-{number}" for number in range(40)]
    assert winner(many) == winner(reversed(many))


def test_members_that_never_sync_are_removed_static_ones_too() -> None:
    """C16: the group is Stable since the leader synced. After the rebalance timeout members that did not sync
    are removed."""
    driver = Driver()
    driver.stable_group("a", "b", session_timeout_ms=100_000)
    driver.join(instance="s", session_timeout_ms=100_000)
    driver.rejoin_all(session_timeout_ms=100_000)
    leader, dynamic, static = driver.group.members
    driver.sync(leader, driver.group.generation, assignments={leader: b"all"})
    assert driver.group.state is STABLE
    driver.advance(REBALANCE_MS + ROUNDING_MS)
    assert list(driver.group.members) == [leader]
    assert driver.group.state is PREPARING_REBALANCE
    removed = [event.member_id for event in driver.events if isinstance(event, MemberExpired)]
    assert removed == [dynamic, static]


def test_leader_that_never_syncs_lets_the_others_rejoin() -> None:
    """C16, B11: the group is in CompletingRebalance no longer than the rebalance timeout."""
    driver = Driver()
    driver.stable_group("a", "b", session_timeout_ms=100_000)
    driver.rejoin_all(session_timeout_ms=100_000)
    leader, follower = driver.group.members
    parked = driver.sync(follower, driver.group.generation)
    driver.advance(REBALANCE_MS + ROUNDING_MS)
    assert driver.synced(parked).error_code == ErrorCode.rebalance_in_progress
    assert driver.beat(leader, driver.group.generation) == ErrorCode.unknown_member_id
    rejoin = driver.join(follower)
    assert driver.joined(rejoin).leader == follower


def test_joining_during_completing_starts_over_without_assignments() -> None:
    """C19: the assignment that the leader was about to make is void for all members."""
    driver = Driver()
    driver.stable_group("a", "b")
    driver.rejoin_all()
    _, follower = driver.group.members
    parked = driver.sync(follower, driver.group.generation)
    driver.new_member()
    assert driver.synced(parked).error_code == ErrorCode.rebalance_in_progress
    assert {member.assignment for member in driver.group.members.values()} == {b""}


def test_cooperative_rebalance_takes_two_rounds() -> None:
    """B7: in the first round the owner gives partition 1 up and rejoins, in the second the newcomer gets
    it."""
    driver = Driver()
    [owner] = driver.stable_group("a", protocols=(("cooperative-sticky", b"owns 0 1"),))
    newcomer_token = driver.new_member(protocols=(("cooperative-sticky", b"owns none"),))
    assert driver.beat(owner, 1) == ErrorCode.rebalance_in_progress
    assert (
        driver.joined(driver.join(owner, protocols=(("cooperative-sticky", b"owns 0 1"),))).generation_id == 2
    )
    newcomer = driver.joined(newcomer_token).member_id
    names = {"protocol_name": "cooperative-sticky"}
    waiting = driver.sync(newcomer, 2, **names)
    driver.sync(owner, 2, assignments={owner: b"0", newcomer: b""}, **names)
    assert driver.synced(waiting).assignment == b""

    rejoin = driver.join(owner, protocols=(("cooperative-sticky", b"owns 0"),))
    assert driver.beat(newcomer, 2) == ErrorCode.rebalance_in_progress
    driver.join(newcomer, protocols=(("cooperative-sticky", b"owns none"),))
    assert driver.joined(rejoin).generation_id == 3
    waiting = driver.sync(newcomer, 3, **names)
    driver.sync(owner, 3, assignments={owner: b"0", newcomer: b"1"}, **names)
    assert driver.synced(waiting).assignment == b"1"


def test_rebalance_explains_itself() -> None:
    """The event names the member that caused the rebalance, the cause, and how long it took."""
    driver = Driver()
    [member] = driver.stable_group("a")
    driver.events.clear()
    driver.join(member, reason="topics changed")
    driver.advance(40)
    driver.sync_all()
    began, ended = (e for e in driver.events if isinstance(e, RebalanceBegan | RebalanceEnded))
    assert isinstance(began, RebalanceBegan)
    assert (began.at_ms, began.group_epoch, began.client_id) == (START_MS, 1, "a")
    assert (began.cause, began.rule, began.member_id) == ("leader rejoined", "C9", member)
    assert isinstance(ended, RebalanceEnded)
    assert (ended.group_epoch, ended.members, ended.duration_ms, ended.reason) == (
        2,
        1,
        40,
        "topics changed",
    )
