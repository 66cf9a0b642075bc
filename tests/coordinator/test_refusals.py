"""Each API refuses a request in a form of its own."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog.groups import GROUP_APIS
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
)
from actors.protocol.messages import (
    CommittedPartition,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedClassicGroup,
    DescribedConsumerGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    FetchedOffset,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from actors.protocol.push_messages import RegisterConsumerRequest, RegisterConsumerResponse

NO = ErrorCode.not_coordinator
LOADING = ErrorCode.coordinator_load_in_progress
COMMITTED = (("t", (CommittedPartition(0, 1), CommittedPartition(1, 2))), ("u", (CommittedPartition(5, 3),)))
JOIN = JoinGroupRequest("g", 10_000, 60_000, "m", None, "consumer", ())
FETCH = OffsetFetchRequest((OffsetFetchGroup("g", (("t", (0, 1)),)), OffsetFetchGroup("h", None)))
BODIES: dict[int, tuple[Any, Any]] = {
    api_keys.JOIN_GROUP: (JOIN, JoinGroupResponse(NO, member_id="m")),
    api_keys.SYNC_GROUP: (
        SyncGroupRequest("g", 1, "m", None, None, None, ()),
        SyncGroupResponse(NO),
    ),
    api_keys.HEARTBEAT: (HeartbeatRequest("g", 1, "m"), HeartbeatResponse(NO)),
    api_keys.LEAVE_GROUP: (
        LeaveGroupRequest("g", (LeavingMember("m"),)),
        LeaveGroupResponse(NO),
    ),
    api_keys.OFFSET_COMMIT: (
        OffsetCommitRequest("g", 1, "m", None, -1, COMMITTED),
        OffsetCommitResponse((("t", ((0, NO), (1, NO))), ("u", ((5, NO),)))),
    ),
    api_keys.OFFSET_FETCH: (
        FETCH,
        OffsetFetchResponse((FetchedGroup("g", (), NO), FetchedGroup("h", (), NO))),
    ),
    api_keys.OFFSET_DELETE: (
        OffsetDeleteRequest("g", (("t", (0,)),)),
        OffsetDeleteResponse(NO),
    ),
    api_keys.DESCRIBE_GROUPS: (
        DescribeGroupsRequest(("g", "h")),
        DescribeGroupsResponse((DescribedClassicGroup(NO, "g"), DescribedClassicGroup(NO, "h"))),
    ),
    api_keys.LIST_GROUPS: (ListGroupsRequest(), ListGroupsResponse(NO)),
    api_keys.DELETE_GROUPS: (
        DeleteGroupsRequest(("g", "h", "g")),
        DeleteGroupsResponse((("g", NO), ("h", NO))),
    ),
    api_keys.CONSUMER_GROUP_HEARTBEAT: (
        ConsumerGroupHeartbeatRequest("g", "m", 3),
        ConsumerGroupHeartbeatResponse(NO, None, None, 0, 0, None),
    ),
    api_keys.CONSUMER_GROUP_PREPARE_ASSIGNMENT: (
        PrepareAssignmentRequest("g", "m", 3),
        PrepareAssignmentResponse(NO),
    ),
    api_keys.CONSUMER_GROUP_INSTALL_ASSIGNMENT: (
        InstallAssignmentRequest("g", "m", 3, 4, 0, None, ()),
        InstallAssignmentResponse(NO),
    ),
    api_keys.REGISTER_CONSUMER: (
        RegisterConsumerRequest("g", "c", (), True, "smallest", 30_000),
        RegisterConsumerResponse(NO),
    ),
    api_keys.CONSUMER_GROUP_DESCRIBE: (
        ConsumerGroupDescribeRequest(("g",)),
        ConsumerGroupDescribeResponse((DescribedConsumerGroup(NO, "g"),)),
    ),
}


def ask(api_key: int, body: Any, version: int = 9) -> Request:
    return Request(1, api_key, version, "client", "/127.0.0.1", body)


@pytest.mark.parametrize("api_key", sorted(GROUP_APIS))
def test_every_group_api_says_not_coordinator_in_its_own_form(api_key: int) -> None:
    """W17, C27: requests of many groups are refused group by group, OffsetCommit partition by partition."""
    body, answer = BODIES[api_key]
    assert refusal(ask(api_key, body), 16) == answer


@pytest.mark.parametrize("api_key", sorted(GROUP_APIS - {api_keys.HEARTBEAT, api_keys.OFFSET_FETCH}))
def test_while_loading_requests_are_told_so(api_key: int) -> None:
    body, _ = BODIES[api_key]
    assert set(codes(refusal(ask(api_key, body), LOADING))) == {LOADING}


def codes(answer: Any) -> list[int]:
    """Every error code in an answer, wherever its form has one."""
    if isinstance(answer, OffsetCommitResponse):
        return [error for _, errors in answer.topics for _, error in errors]
    if isinstance(answer, DeleteGroupsResponse):
        return [error for _, error in answer.results]
    if isinstance(answer, DescribeGroupsResponse | ConsumerGroupDescribeResponse):
        return [group.error_code for group in answer.groups]
    return [answer.error_code]


def test_a_heartbeat_while_loading_is_answered_as_if_all_were_well() -> None:
    """W4: members must not rejoin because a leader is new."""
    assert refusal(ask(api_keys.HEARTBEAT, HeartbeatRequest("g", 1, "m")), LOADING).error_code == 0


@pytest.mark.parametrize(("error", "member_id"), [(24, "m"), (25, "m"), (23, "m"), (81, ""), (-1, "")])
def test_a_refused_join_echoes_the_member_id(error: int, member_id: str) -> None:
    """This holds except for the errors 81 and -1."""
    answer = refusal(ask(api_keys.JOIN_GROUP, JOIN), error)
    assert (answer.error_code, answer.member_id, answer.generation_id) == (error, member_id, -1)


def test_a_refused_fetch_of_version_1_has_the_error_on_each_partition() -> None:
    """This is rule W6 (KAFKA-19246)."""
    body = OffsetFetchRequest((OffsetFetchGroup("g", (("t", (0, 1)),)),))
    [group] = refusal(ask(api_keys.OFFSET_FETCH, body, version=1), 16).groups
    on_partitions = tuple(FetchedOffset(p, -1, -1, "", NO) for p in (0, 1))
    assert group.topics == (("t", on_partitions),)


@pytest.mark.parametrize(("require_stable", "error"), [(True, 16), (False, 15)])
def test_a_stable_fetch_whose_write_failed_says_not_coordinator(require_stable: bool, error: int) -> None:
    """W5: old clients shall retry. W3 holds for a fetch that is not stable."""
    body = FETCH._replace(require_stable=require_stable)
    assert {g.error_code for g in refusal(ask(api_keys.OFFSET_FETCH, body), 7).groups} == {error}


@pytest.mark.parametrize(
    ("below", "told"), [(3, 15), (19, 15), (7, 15), (6, 16), (56, 16), (13, 14), (25, 25)]
)
def test_errors_from_below_the_coordinator_are_translated(below: int, told: int) -> None:
    """This is rule W3."""
    body = SyncGroupRequest("g", 1, "m", None, None, None, ())
    assert refusal(ask(api_keys.SYNC_GROUP, body), below).error_code == told


def test_a_message_goes_where_the_answer_has_a_place_for_it() -> None:
    beat = ConsumerGroupHeartbeatRequest("g", "m", 3)
    assert refusal(ask(api_keys.CONSUMER_GROUP_HEARTBEAT, beat), 42, "why").error_message == "why"
    described = refusal(ask(api_keys.DESCRIBE_GROUPS, DescribeGroupsRequest(("g",))), 69, "why")
    assert described.groups[0].error_message == "why"
