"""Members leave, or operators remove them (C23, E7, W7)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.classic.group import EMPTY, PREPARING_REBALANCE
from actors.coordinator.told.events import MemberLeft, RebalanceBegan, StateChanged
from actors.protocol.messages import (
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupResponse,
)
from tests.coordinator.classic.driver import Driver

CHANGED = (("range", b"changed"),)


def errors(answer: LeaveGroupResponse) -> list[ErrorCode]:
    assert answer.error_code == ErrorCode.none
    return [member.error_code for member in answer.members]


def test_batch_makes_one_rebalance() -> None:
    """C23: two of three leave in one request."""
    driver = Driver()
    a, b, c = driver.stable_group("a", "b", "c")
    driver.events.clear()
    assert errors(driver.leave(b, c)) == [ErrorCode.none, ErrorCode.none]
    assert [type(event) for event in driver.events] == [MemberLeft, MemberLeft, RebalanceBegan, StateChanged]
    assert driver.beat(a, driver.group.generation) == ErrorCode.rebalance_in_progress


def test_errors_stand_on_members() -> None:
    """C23, E7: each pairing of ids is tried; the same id twice gets no error, then UNKNOWN_MEMBER_ID."""
    driver = Driver()
    driver.stable_group("a", "b")
    for instance in ("s1", "s2", "s3"):
        driver.join(instance=instance)
        driver.rejoin_all()
    driver.sync_all()
    dynamic, _, s1, s2, s3 = driver.group.members
    answer = driver.leave(
        LeavingMember("", None),
        LeavingMember("", "nobody"),
        LeavingMember("ghost", None),
        LeavingMember(s1, "s2"),
        LeavingMember(s1, "nobody"),
        LeavingMember(dynamic, None),
        LeavingMember(dynamic, None),
        LeavingMember("", "s1"),
        LeavingMember(s2, "s2"),
        LeavingMember(s3, None),
    )
    unknown = ErrorCode.unknown_member_id
    assert errors(answer) == [
        *[unknown] * 3,
        ErrorCode.fenced_instance_id,
        unknown,
        ErrorCode.none,
        unknown,
        *[ErrorCode.none] * 3,
    ]
    assert answer.members[7] == LeftMember("", "s1", ErrorCode.none)


def test_missing_group_says_it_on_each_member() -> None:
    """W7: the top error is NONE; the encoder lifts the member's error for old versions."""
    assert errors(Driver().leave("x", "y", group="none")) == [ErrorCode.unknown_member_id] * 2


@pytest.mark.parametrize("group", ["none", "orders"])
def test_empty_batch_is_no_error(group: str) -> None:
    """C23: the answer has no error and no members, and nothing happens, whether the group exists or not."""
    driver = Driver()
    driver.stable_group("a")
    assert driver.leave(group=group) == LeaveGroupResponse(ErrorCode.none, ())
    assert driver.group.generation == 1


def test_empty_group_id_is_invalid() -> None:
    """W2: the error is that of the whole request."""
    driver = Driver()
    token = driver.send(13, LeaveGroupRequest("", (LeavingMember("x"),)), 5)
    assert driver.replies[token].error_code == ErrorCode.invalid_group_id


def test_pending_member_leaves() -> None:
    """C23, C8: the pending id is dropped, and the join it held back completes."""
    driver = Driver()
    [member] = driver.stable_group("a")
    pending = driver.joined(driver.join()).member_id
    token = driver.join(member)
    assert driver.waits(token)
    assert errors(driver.leave(pending)) == [ErrorCode.none]
    assert driver.joined(token).generation_id == 2


def test_parked_join_of_a_member_that_is_removed_is_answered() -> None:
    """C23: the answer is UNKNOWN_MEMBER_ID with member id ""."""
    driver = Driver()
    _, follower = driver.stable_group("a", "b")
    parked = driver.join(follower, protocols=CHANGED)
    driver.leave(follower)
    assert driver.joined(parked) == JoinGroupResponse(ErrorCode.unknown_member_id)


def test_parked_sync_of_a_member_that_is_removed_is_answered() -> None:
    """This is C23 for SyncGroup, which Kafka leaves without an answer."""
    driver = Driver()
    driver.stable_group("a", "b")
    driver.rejoin_all()
    _, follower = driver.group.members
    parked = driver.sync(follower, driver.group.generation)
    driver.leave(follower)
    assert driver.synced(parked) == SyncGroupResponse(ErrorCode.unknown_member_id)


def test_last_missing_member_leaves_and_the_join_completes() -> None:
    """C23: in PreparingRebalance no other member is waited for."""
    driver = Driver()
    leader, follower = driver.stable_group("a", "b")
    token = driver.join(leader)
    assert driver.group.state is PREPARING_REBALANCE
    driver.leave(follower)
    assert [member[0] for member in driver.joined(token).members] == [leader]


def test_last_member_leaves() -> None:
    """C13, C23: the group is Empty at once, and its generation is one higher."""
    driver = Driver()
    [member] = driver.stable_group("a")
    driver.leave(member)
    assert (driver.group.state, driver.group.generation) == (EMPTY, 2)


def test_reason_explains_the_rebalance() -> None:
    """C24, KIP-800: the reason is the client's, cut to its limit."""
    driver = Driver()
    _, follower = driver.stable_group("a", "b")
    driver.leave(LeavingMember(follower, None, "the consumer is being closed" + "!" * 300))
    began = driver.events[-2]
    assert isinstance(began, RebalanceBegan)
    assert (began.cause, began.member_id) == ("member left", follower)
    assert began.reason is not None
    assert len(began.reason) == 255
