"""Static members (KIP-345) restart without a rebalance, and their old lives are fenced (C21, C22, E1 to E8,
E10, E12)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.group import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from actors.coordinator.classic.state import stored_groups
from actors.coordinator.classic.views import describe
from actors.ground.contract import Record
from actors.ground.records import CLASSIC_MEMBER, ClassicMemberKey
from actors.protocol.messages import JoinGroupResponse, SyncGroupResponse
from tests.coordinator.classic.driver import GROUP, REBALANCE_MS, SESSION_MS, Driver

ROUNDING_MS = 16


def static_group(*instances: str) -> tuple[Driver, list[str]]:
    """Make a Stable group with these instances; the first leads."""
    driver = Driver()
    for instance in instances:
        driver.join(instance=instance)
        driver.rejoin_all()
    driver.sync_all()
    assert driver.group.state is STABLE
    return driver, list(driver.group.members)


def test_unknown_instance_is_added_and_rebalances() -> None:
    """E1, E4: there is no MEMBER_ID_REQUIRED, but the others have to rejoin."""
    driver, [leader] = static_group("s1")
    assert driver.waits(driver.join(instance="s2"))
    assert driver.beat(leader, 1, "s1") == ErrorCode.rebalance_in_progress


def test_restarted_follower_causes_no_rebalance() -> None:
    """C21, E3: it has a new member id in the same generation, and SyncGroup gives it its old assignment."""
    driver, [leader, old] = static_group("s1", "s2")
    generation = driver.group.generation
    answer = driver.joined(driver.join(instance="s2"))
    assert answer == JoinGroupResponse(
        ErrorCode.none, generation, "consumer", "range", leader, member_id=answer.member_id
    )
    assert answer.member_id != old
    assert driver.beat(leader, generation) == ErrorCode.none
    synced = driver.synced(driver.sync(answer.member_id, generation, instance="s2"))
    assert synced.assignment == b"for " + old.encode()


def test_restart_is_stored() -> None:
    """C21: the mapping survives a failover; only the two members' records are written."""
    driver, [_, old] = static_group("s1", "s2")
    new = driver.joined(driver.join(instance="s2")).member_id
    keys = [ClassicMemberKey(CLASSIC_MEMBER, GROUP, member_id) for member_id in (old, new)]
    assert [record.key for record in driver.decided] == keys
    assert driver.decided[0] == Record(keys[0], None)
    driver.fail_over()
    assert driver.group.static_members["s2"] == new
    assert driver.beat(new, driver.group.generation, "s2") == ErrorCode.none
    assert driver.beat(old, driver.group.generation, "s2") == ErrorCode.fenced_instance_id


def test_restarted_follower_may_change_its_subscription_unnoticed() -> None:
    """C21: the protocol stays the same, so that no member has to rejoin; the new bytes are stored."""
    driver, _ = static_group("s1", "s2")
    protocols = (("range", b"other topics"),)
    answer = driver.joined(driver.join(instance="s2", protocols=protocols))
    assert answer.generation_id == driver.group.generation
    assert driver.group.state is STABLE
    assert stored_groups(driver.state)[GROUP].members[answer.member_id].protocols == protocols


def test_restart_that_changes_the_vote_rebalances() -> None:
    """C21, C6: among the protocols that all support the other one would win, so all have to rejoin."""
    driver, [leader, _] = static_group("s1", "s2")
    driver.join(leader, instance="s1", protocols=(("sticky", b""), ("range", b"")))
    driver.rejoin_all()
    driver.sync_all()
    chosen = driver.group.protocol_name
    other = {"range": "sticky", "sticky": "range"}[str(chosen)]
    token = driver.join(instance="s2", protocols=((other, b""),))
    assert driver.waits(token)
    assert driver.group.state is PREPARING_REBALANCE


def test_restarted_sole_member_cannot_change_the_protocol() -> None:
    """C6, C21: the member's old life counts among those that support a protocol. The answer is
    INCONSISTENT_GROUP_PROTOCOL, and the member stays as it was."""
    driver, [member] = static_group("s1")
    answer = driver.joined(driver.join(instance="s1", protocols=(("roundrobin", b""),)))
    assert answer == JoinGroupResponse(ErrorCode.inconsistent_group_protocol)
    assert driver.beat(member, 1, "s1") == ErrorCode.none


def test_restarted_leader_is_told_to_skip_the_assignment() -> None:
    """C22, E10, KIP-814: from version 9 on the answer says that it leads, lists the members, and tells it not
    to assign."""
    driver, _ = static_group("s1", "s2")
    answer = driver.joined(driver.join(instance="s1"))
    assert answer.leader == answer.member_id == driver.group.leader
    assert answer.skip_assignment
    assert {member[1] for member in answer.members} == {"s1", "s2"}
    assert driver.group.state is STABLE
    driver.fail_over()
    assert driver.group.leader == answer.member_id


def test_restarted_leader_of_an_old_client_takes_itself_for_a_follower() -> None:
    """C22: below version 9 the answer names the old leader's id, and lists no members."""
    driver, [old, _] = static_group("s1", "s2")
    answer = driver.joined(driver.join(instance="s1", version=8))
    assert (answer.leader, answer.skip_assignment, answer.members) == (old, False, ())
    assert driver.group.leader == answer.member_id


def test_leader_that_rejoins_with_its_id_rebalances() -> None:
    """E1: a known leader asks for a new assignment."""
    driver, [leader, _] = static_group("s1", "s2")
    assert driver.waits(driver.join(leader, instance="s1"))


def test_restart_during_completing_rebalances() -> None:
    """C21: the leader is about to assign to the old member id."""
    driver, _ = static_group("s1", "s2")
    driver.rejoin_all()
    assert driver.group.state is COMPLETING_REBALANCE
    assert driver.waits(driver.join(instance="s2"))
    assert driver.group.state is PREPARING_REBALANCE


def test_restart_during_preparing_may_complete_the_join() -> None:
    """C21: the instance was the last member missing."""
    driver, [leader, _] = static_group("s1", "s2")
    token = driver.join(leader, instance="s1")
    answer = driver.joined(driver.join(instance="s2"))
    assert answer.generation_id == driver.joined(token).generation_id == driver.group.generation


def test_parked_join_of_the_old_incarnation_is_fenced() -> None:
    """C21: the old member id is in the answer, and the new one takes its place."""
    driver, [_, follower] = static_group("s1", "s2")
    parked = driver.join(follower, instance="s2", protocols=(("range", b"changed"),))
    token = driver.join(instance="s2")
    assert driver.joined(parked) == JoinGroupResponse(ErrorCode.fenced_instance_id, member_id=follower)
    assert driver.waits(token)


def test_parked_sync_of_the_old_incarnation_is_fenced() -> None:
    """C21: it gets FENCED_INSTANCE_ID, not the REBALANCE_IN_PROGRESS of the others."""
    driver, _ = static_group("s1", "s2", "s3")
    driver.rejoin_all()
    _, second, third = driver.group.members
    parked = driver.sync(second, driver.group.generation, instance="s2")
    bystander = driver.sync(third, driver.group.generation, instance="s3")
    driver.join(instance="s2")
    assert driver.synced(parked) == SyncGroupResponse(ErrorCode.fenced_instance_id)
    assert driver.synced(bystander) == SyncGroupResponse(ErrorCode.rebalance_in_progress)


def test_restarted_member_that_owed_a_sync_still_owes_it() -> None:
    """C16, C21: the new life syncs, and no member is removed when the sync phase ends."""
    driver, _ = static_group("s1", "s2")
    driver.rejoin_all(session_timeout_ms=100_000)
    leader, _ = driver.group.members
    driver.sync(leader, driver.group.generation, instance="s1")
    new = driver.joined(driver.join(instance="s2", session_timeout_ms=100_000)).member_id
    assert list(driver.group.pending_syncs) == [new]
    driver.sync(new, driver.group.generation, instance="s2")
    driver.advance(REBALANCE_MS + ROUNDING_MS)
    assert set(driver.group.members) == {leader, new}


def test_wrong_member_id_for_an_instance_is_fenced_everywhere() -> None:
    """E5: JoinGroup, SyncGroup and Heartbeat say so, and LeaveGroup says it of the member (E7)."""
    driver, [first, _] = static_group("s1", "s2")
    generation = driver.group.generation
    fenced = ErrorCode.fenced_instance_id
    answer = driver.joined(driver.join(first, instance="s2"))
    assert answer == JoinGroupResponse(fenced, member_id=first)
    assert driver.synced(driver.sync(first, generation, instance="s2")).error_code == fenced
    assert driver.beat(first, generation, "s2") == fenced


def test_unknown_instance_with_a_member_id_is_unknown() -> None:
    """E6: this holds even if the member id exists."""
    driver, [first, _] = static_group("s1", "s2")
    generation = driver.group.generation
    unknown = ErrorCode.unknown_member_id
    assert driver.joined(driver.join(first, instance="s9")).error_code == unknown
    assert driver.synced(driver.sync(first, generation, instance="s9")).error_code == unknown
    assert driver.beat(first, generation, "s9") == unknown


def test_static_member_may_leave_out_its_instance() -> None:
    """E5: without an instance id only the member id counts."""
    driver, [first, _] = static_group("s1", "s2")
    assert driver.beat(first, driver.group.generation) == ErrorCode.none


def test_only_the_session_timeout_evicts_a_silent_static_member() -> None:
    """E8, E1: there is no rebalance before the timeout, and one after it."""
    driver, [leader, _] = static_group("s1", "s2")
    generation = driver.group.generation
    driver.advance(SESSION_MS - 100)
    assert driver.beat(leader, generation) == ErrorCode.none
    driver.advance(100 + ROUNDING_MS)
    assert list(driver.group.members) == [leader]
    assert driver.beat(leader, generation) == ErrorCode.rebalance_in_progress


def test_restarted_member_has_a_full_session() -> None:
    """C21: the old life's timer is gone, and that of the new one runs from the join."""
    driver, [leader, _] = static_group("s1", "s2")
    driver.advance(SESSION_MS - 100)
    driver.beat(leader, driver.group.generation)
    new = driver.joined(driver.join(instance="s2")).member_id
    driver.advance(SESSION_MS - 100)
    driver.beat(leader, driver.group.generation)
    assert driver.beat(new, driver.group.generation) == ErrorCode.none


@pytest.mark.parametrize(("before_ms", "after_ms"), [(10_000, 60_000), (60_000, 10_000)])
def test_restarted_member_has_its_new_session_timeout_from_its_first_heartbeat_on(
    before_ms: int, after_ms: int
) -> None:
    """C21: until then the timeout of its old life holds, the shorter one as the longer one."""
    driver = Driver()
    driver.stable_group("c")
    driver.join(instance="s2", session_timeout_ms=before_ms)
    driver.rejoin_all()
    driver.sync_all()

    def restart() -> str:
        answer = driver.joined(driver.join(instance="s2", session_timeout_ms=after_ms))
        assert driver.group.state is STABLE
        return answer.member_id

    def due_ms(member_id: str) -> int | None:
        return driver.state.timers.deadline_ms(driver.group.members[member_id].session_key)

    new = restart()
    assert due_ms(new) == driver.now_ms + before_ms
    driver.sync(new, driver.group.generation, instance="s2")
    assert due_ms(new) == driver.now_ms + before_ms
    driver.beat(new, driver.group.generation, "s2")
    assert due_ms(new) == driver.now_ms + after_ms


def test_restart_shows_the_new_host() -> None:
    """E3, C25: DescribeGroups names the client that is there now."""
    driver, _ = static_group("s1")
    driver.join(instance="s1", client_id="after")
    assert [member.client_id for member in describe(driver.state, GROUP).members] == ["after"]


def test_static_and_dynamic_members_mix() -> None:
    """E12, E2: the leader's list names the instances of static members."""
    driver, _ = static_group("s1")
    token = driver.new_member()
    rejoined = driver.rejoin_all()
    [leader_token] = rejoined.values()
    assert driver.joined(token).generation_id == 2
    assert [member[1] for member in driver.joined(leader_token).members] == ["s1", None]
