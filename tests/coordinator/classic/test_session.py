"""SyncGroup, Heartbeat and commits of members (C17, C18, C20, O1 to O3, W2)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.area import AREA
from actors.coordinator.classic.group import STABLE
from actors.coordinator.classic.session import validate_commit
from actors.coordinator.classic.state import stored_groups
from actors.ground.contract import Request, Result
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import HeartbeatRequest, OffsetCommitRequest, SyncGroupResponse
from tests.coordinator.classic.driver import GROUP, SESSION_MS, START_MS, Driver

CHANGED = (("range", b"changed"),)


def commit(driver: Driver, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
    body = OffsetCommitRequest(GROUP, generation, member_id, instance, -1, ())
    request = Request(0, api_keys.OFFSET_COMMIT, 8, "c", "/127.0.0.1", body)
    try:
        validate_commit(driver.state, request, driver.now_ms)
    except GroupError as error:
        return error.error_code
    return ErrorCode.none


def completing(driver: Driver) -> tuple[list[str], int]:
    """Take a Stable group into CompletingRebalance."""
    driver.rejoin_all()
    return list(driver.group.members), driver.group.generation


def test_leaders_sync_ends_the_barrier() -> None:
    """C18, B5: all members wait, then each gets its own assignment; one that the leader left out gets empty
    bytes."""
    driver = Driver()
    driver.stable_group("a", "b", "c")
    (leader, second, third), generation = completing(driver)
    waiting = [driver.sync(second, generation), driver.sync(third, generation)]
    assert all(driver.waits(token) for token in waiting)
    driver.sync(leader, generation, assignments={leader: b"L", second: b"S", "nobody": b"N"})
    answers = [driver.synced(token) for token in waiting]
    assert answers == [
        SyncGroupResponse(ErrorCode.none, "consumer", "range", b"S"),
        SyncGroupResponse(ErrorCode.none, "consumer", "range", b""),
    ]
    assert driver.group.state is STABLE


def test_new_generation_is_stored_and_only_what_changed() -> None:
    """C18: the answers are in the Result with the records, and an unchanged member is not written again."""
    driver = Driver()
    members = driver.stable_group("a", "b")
    driver.join(members[0])
    driver.join(members[1])
    generation = driver.group.generation
    same = b"for " + members[0].encode()
    driver.sync(members[0], generation, assignments={members[0]: same, members[1]: b"new"})
    assert [record.key[-1] for record in driver.decided] == [members[1], GROUP]
    stored = stored_groups(driver.state)[GROUP]
    assert stored.metadata is not None
    assert stored.metadata.generation == generation


def test_session_that_ran_out_while_a_sync_was_parked_starts_anew() -> None:
    """C12, C18, C19: a waiting member is alive, and any answer starts its session anew."""
    driver = Driver()
    driver.stable_group("a", "b", "c")
    (leader, follower, other), generation = completing(driver)
    parked = driver.sync(follower, generation)
    for _ in range(3):
        driver.advance(SESSION_MS - 100)
        driver.beat(leader, generation)
        driver.beat(other, generation)
    driver.sync(leader, generation)
    assert driver.synced(parked).error_code == ErrorCode.none
    (leader, follower, other), generation = completing(driver)
    parked = driver.sync(follower, generation)
    for _ in range(3):
        driver.advance(SESSION_MS - 100)
        driver.beat(leader, generation)
        driver.beat(other, generation)
    driver.leave(other)
    assert driver.synced(parked).error_code == ErrorCode.rebalance_in_progress
    driver.advance(SESSION_MS - 100)
    assert driver.beat(follower, generation) == ErrorCode.rebalance_in_progress
    driver.advance(SESSION_MS + 100)
    assert follower not in driver.group.members


def test_late_follower_gets_its_assignment_in_stable() -> None:
    """C17: a Stable group answers every member at once."""
    driver = Driver()
    driver.stable_group("a", "b")
    (leader, follower), generation = completing(driver)
    driver.sync(leader, generation, assignments={follower: b"F"})
    assert driver.synced(driver.sync(follower, generation)).assignment == b"F"
    assert driver.group.pending_syncs == {}


def test_second_sync_of_one_member_answers_the_first() -> None:
    """This is C9 for SyncGroup: no request waits for ever."""
    driver = Driver()
    driver.stable_group("a", "b")
    (leader, follower), generation = completing(driver)
    first, second = driver.sync(follower, generation), driver.sync(follower, generation)
    assert driver.synced(first).error_code == ErrorCode.rebalance_in_progress
    driver.sync(leader, generation)
    assert driver.synced(second).error_code == ErrorCode.none


def test_sync_during_preparing_is_sent_back() -> None:
    """C17: the generation is the right one, but it is over."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    driver.join(leader)
    answer = driver.synced(driver.sync(follower, driver.group.generation))
    assert answer == SyncGroupResponse(ErrorCode.rebalance_in_progress)


@pytest.mark.parametrize(
    ("member_id", "fields", "error"),
    [
        ("m", {"group_id": "none"}, ErrorCode.unknown_member_id),
        ("m", {"group_id": ""}, ErrorCode.invalid_group_id),
        ("m", {"group_id": "", "protocol_name": None}, ErrorCode.inconsistent_group_protocol),
        ("ghost", {"protocol_type": None}, ErrorCode.inconsistent_group_protocol),
        ("ghost", {"protocol_name": "other"}, ErrorCode.unknown_member_id),
        ("", {"generation_id": 9, "protocol_name": "other"}, ErrorCode.illegal_generation),
        ("", {"protocol_name": "other"}, ErrorCode.inconsistent_group_protocol),
        ("", {"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ("", {"version": 4, "protocol_type": None, "protocol_name": None}, ErrorCode.none),
    ],
)
def test_sync_checks_in_kafkas_order(member_id: str, fields: dict[str, object], error: ErrorCode) -> None:
    """C17, W2: protocol type and name are mandatory from version 5 on and checked first. The parameter ""
    stands for the real member."""
    driver = Driver()
    [member] = driver.stable_group("a")
    assert driver.synced(driver.sync(member_id or member, 1, **fields)).error_code == error


@pytest.mark.parametrize(
    ("group", "member_id", "generation", "error"),
    [
        ("", "m", 1, ErrorCode.invalid_group_id),
        ("none", "m", 1, ErrorCode.unknown_member_id),
        (GROUP, "ghost", 9, ErrorCode.unknown_member_id),
        (GROUP, "", 9, ErrorCode.illegal_generation),
        (GROUP, "", 1, ErrorCode.none),
    ],
)
def test_heartbeat_checks(group: str, member_id: str, generation: int, error: ErrorCode) -> None:
    """These are rules C20 and W2. The parameter "" stands for the real member."""
    driver = Driver()
    [member] = driver.stable_group("a")
    assert driver.beat(member_id or member, generation, group=group) == error


def test_heartbeat_of_an_empty_group_is_unknown() -> None:
    """C20: an Empty group has no members."""
    driver = Driver()
    [member] = driver.stable_group("a")
    driver.leave(member)
    assert driver.beat(member, 2) == ErrorCode.unknown_member_id


def test_heartbeats_keep_a_member_alive_in_every_state() -> None:
    """C20: Stable and CompletingRebalance answer NONE, PreparingRebalance sends back to join, and all start
    the session anew."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    expected = []

    def beat_late() -> None:
        driver.advance(SESSION_MS - 500)
        driver.beat(leader, driver.group.generation)
        expected.append(driver.beat(follower, driver.group.generation))

    beat_late()
    driver.join(leader)
    beat_late()
    beat_late()
    driver.join(follower)
    beat_late()
    assert expected == [
        ErrorCode.none,
        ErrorCode.rebalance_in_progress,
        ErrorCode.rebalance_in_progress,
        ErrorCode.none,
    ]
    assert list(driver.group.members) == [leader, follower]


def test_silent_member_is_removed_and_the_others_rebalance() -> None:
    """C20, B6: the session timeout of JoinGroup is what counts."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    driver.advance(SESSION_MS - 100)
    driver.beat(leader, driver.group.generation)
    driver.advance(200)
    assert driver.beat(follower, driver.group.generation) == ErrorCode.unknown_member_id
    assert driver.beat(leader, driver.group.generation) == ErrorCode.rebalance_in_progress


def test_steady_heartbeat_writes_nothing_and_tells_nothing() -> None:
    """C20: there is one answer, and there are no records and no events."""
    driver = Driver()
    [member] = driver.stable_group("a")
    request = Request(7, api_keys.HEARTBEAT, 4, "c", "/h", HeartbeatRequest(GROUP, 1, member))
    result = AREA.handlers[api_keys.HEARTBEAT](driver.state, request, START_MS)
    assert (len(result.records), len(result.events), len(result.replies)) == (0, 0, 1)
    assert isinstance(result, Result)


def test_commit_of_a_member_in_stable_and_preparing_resets_its_session() -> None:
    """O3: the commit is accepted, and counts as a heartbeat."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    for _ in range(2):
        driver.advance(SESSION_MS - 500)
        driver.beat(leader, driver.group.generation)
        assert commit(driver, follower, driver.group.generation) == ErrorCode.none
        driver.join(leader)
    assert follower in driver.group.members


def test_commit_during_completing_is_sent_back() -> None:
    """O3: the generation is the new one, but the assignment is not known."""
    driver = Driver()
    driver.stable_group("a", "b")
    (leader, _), generation = completing(driver)
    assert commit(driver, leader, generation) == ErrorCode.rebalance_in_progress


def test_commit_to_an_empty_group() -> None:
    """O1: any member id with a negative generation is accepted; generation 0 is a member's, and unknown."""
    driver = Driver()
    driver.join()
    assert commit(driver, "", -1) == ErrorCode.none
    assert commit(driver, "anybody", -1) == ErrorCode.none
    assert commit(driver, "anybody", 0) == ErrorCode.unknown_member_id


def test_commit_to_a_group_with_members() -> None:
    """O1: only members may commit, and with the right generation."""
    driver = Driver()
    [member] = driver.stable_group("a")
    driver.join(instance="s")
    driver.rejoin_all()
    driver.sync_all()
    assert commit(driver, "", -1) == ErrorCode.unknown_member_id
    assert commit(driver, "ghost", -1) == ErrorCode.unknown_member_id
    assert commit(driver, member, -1) == ErrorCode.illegal_generation
    assert commit(driver, member, 9) == ErrorCode.illegal_generation
    assert commit(driver, member, 2, "s") == ErrorCode.fenced_instance_id
    assert commit(driver, member, 2, "t") == ErrorCode.unknown_member_id
    assert commit(driver, member, 2) == ErrorCode.none
