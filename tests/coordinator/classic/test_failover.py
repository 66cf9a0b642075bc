"""A new leader has the records and nothing else (C18, C26, C27)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.area import AREA
from actors.coordinator.classic.group import EMPTY, PREPARING_REBALANCE, STABLE
from actors.coordinator.classic.state import classic_groups, stored_groups
from actors.coordinator.classic.views import describe, subscribed_topics
from actors.coordinator.ground.state import ShardState
from actors.coordinator.kinds import KINDS
from actors.coordinator.told.events import RebalanceBegan, StateChanged
from actors.ground.contract import Record
from actors.ground.image import MetadataImage
from actors.ground.records import (
    CLASSIC_MEMBER,
    GROUP_METADATA,
    ClassicMemberKey,
    ClassicMemberValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from actors.ground.settings import GroupSettings
from tests.coordinator.classic.driver import GROUP, NO_DELAY, PROTOCOLS, SESSION_MS, START_MS, Driver
from tests.coordinator.classic.test_views import offering

MEMBER = ClassicMemberValue(None, "c", "/h", 60_000, 10_000, PROTOCOLS, b"")


def test_stable_group_goes_on_as_if_nothing_had_happened() -> None:
    """C26: generation, leader, assignments, subscriptions and full sessions are the same under the new
    leader."""
    driver = Driver()
    members = driver.stable_group("a", "b", protocols=offering("t"))
    before = describe(driver.state, GROUP)
    driver.advance(SESSION_MS - 100)
    driver.fail_over()
    assert describe(driver.state, GROUP) == before
    assert subscribed_topics(driver.state, GROUP) == frozenset({"t"})
    driver.advance(SESSION_MS - 100)
    assert [driver.beat(member, driver.group.generation) for member in members] == [ErrorCode.none] * 2


def test_sessions_are_armed_on_the_new_leader() -> None:
    """C26: a member that sends the new leader no heartbeat is removed."""
    driver = Driver()
    driver.stable_group("a")
    driver.fail_over()
    driver.advance(SESSION_MS + 100)
    assert driver.group.state is EMPTY


def test_failover_in_the_middle_of_a_rebalance_falls_back() -> None:
    """C26: in PreparingRebalance and in CompletingRebalance the last Stable generation holds: members that
    were told the new one are refused, and rejoin."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    generation = driver.group.generation
    driver.new_member()
    driver.fail_over()
    assert (driver.group.state, driver.group.generation) == (STABLE, generation)
    assert list(driver.group.members) == [leader, follower]
    driver.join(leader)
    driver.join(follower)
    assert driver.group.generation == generation + 1
    driver.fail_over()
    assert (driver.group.state, driver.group.generation) == (STABLE, generation)
    assert driver.beat(leader, generation + 1) == ErrorCode.illegal_generation
    assert driver.synced(driver.sync(follower, generation + 1)).error_code == ErrorCode.illegal_generation


def test_failover_in_the_first_join_phase_leaves_an_empty_group() -> None:
    """C26, C3: only the creation was stored; the client starts over."""
    driver = Driver(GroupSettings())
    pending = driver.joined(driver.join()).member_id
    driver.join(pending)
    driver.fail_over()
    assert (driver.group.state, driver.group.generation) == (EMPTY, 0)
    assert driver.joined(driver.join(pending)).error_code == ErrorCode.unknown_member_id
    assert describe(driver.state, GROUP).protocol_type == ""


def test_empty_group_remembers_when_it_became_empty() -> None:
    """C26, O14: the expiry of its offsets counts from that time."""
    driver = Driver()
    driver.leave(*driver.stable_group("a"))
    driver.advance(5_000)
    driver.fail_over()
    assert driver.group.current_state_timestamp_ms == START_MS
    assert (driver.group.generation, driver.group.protocol_type) == (2, "consumer")


def test_group_above_a_lowered_limit_rebalances() -> None:
    """C26, C5: the last member to rejoin is refused."""
    driver = Driver()
    a, b = driver.stable_group("a", "b")
    driver.events.clear()
    driver.fail_over(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=1))
    assert [type(event) for event in driver.events] == [RebalanceBegan, StateChanged]
    assert driver.beat(a, driver.group.generation) == ErrorCode.rebalance_in_progress
    kept, refused = driver.join(b), driver.join(a)
    assert driver.joined(refused).error_code == ErrorCode.group_max_size_reached
    assert driver.joined(kept).generation_id == 3


def test_resigned_leader_keeps_records_only() -> None:
    """C27: parked requests are the host's to answer; no live group and no timer is left."""
    driver = Driver()
    leader, _ = driver.stable_group("a", "b")
    driver.join(leader)
    assert driver.group.state is PREPARING_REBALANCE
    snapshot = driver.records()
    driver.commit()
    driver.fall()
    assert (classic_groups(driver.state), len(driver.state.timers)) == ({}, 0)
    assert driver.records() == snapshot


def replayed(*records: Record) -> ShardState:
    state = ShardState(NO_DELAY, lambda: "id", MetadataImage(), kinds=KINDS)
    for key, value in records:
        AREA.appliers[key[0]](state, key, value)
    AREA.on_elected(state, START_MS)
    return state


def member_record(member_id: str, value: ClassicMemberValue | None = MEMBER) -> Record:
    return Record(ClassicMemberKey(CLASSIC_MEMBER, GROUP, member_id), value)


def metadata_record(value: GroupMetadataValue | None) -> Record:
    return Record(GroupMetadataKey(GROUP_METADATA, GROUP), value)


def test_generation_cut_short_is_not_the_groups() -> None:
    """C18: if only the member records of a first generation were committed, the group is Empty; its next
    generation removes them."""
    driver = Driver()
    driver.begin_with((metadata_record(GroupMetadataValue("", 0, None, None, 0)), member_record("m1")))
    assert describe(driver.state, GROUP).group_state == "Empty"
    driver.stable_group("a")
    assert set(stored_groups(driver.state)[GROUP].members) == set(driver.group.members)
    assert "m1" not in driver.group.members


def test_leader_that_is_gone_is_replaced_when_the_group_is_rebuilt() -> None:
    """C14: whatever the records say, one of the members leads."""
    metadata = GroupMetadataValue("consumer", 3, "range", "gone", 0)
    state = replayed(metadata_record(metadata), member_record("m1"))
    assert classic_groups(state)[GROUP].leader == "m1"


def test_appliers_are_total() -> None:
    """Style rule 2: tombstones of nothing change nothing, orphans stay until they are deleted."""
    state = replayed(metadata_record(None), member_record("m1", None))
    assert stored_groups(state) == {}
    state = replayed(member_record("m1"))
    assert describe(state, GROUP).group_state == "Empty"
    metadata = metadata_record(GroupMetadataValue("consumer", 1, "range", "m1", 0))
    assert AREA.appliers[GROUP_METADATA](state, *metadata) is None
    assert AREA.appliers[GROUP_METADATA](state, metadata.key, None) == metadata.value
    assert AREA.appliers[CLASSIC_MEMBER](state, *member_record("m1", None)) == MEMBER
    assert stored_groups(state) == {}
