"""What each API of groups answers when a request as a whole is refused, for the rows of the catalog.

Kafka has no common form: OffsetCommit has no field for a request-wide error and says it on every partition,
the APIs of many groups say it for every group, and JoinGroup gives the member id back.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request
from actors.protocol.client_assignor_messages import InstallAssignmentResponse, PrepareAssignmentResponse
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedClassicGroup,
    DescribedConsumerGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from actors.protocol.offset_refusals import refused_commit, refused_fetch
from actors.protocol.push_messages import RegisterConsumerResponse

_WRITE_FAILED = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.coordinator_not_available,
    }
)


def join_group(request: Request, error: ErrorCode, message: str | None) -> JoinGroupResponse:
    # Errors echo the request's member id, save GROUP_MAX_SIZE_REACHED and unexpected ones.
    body: JoinGroupRequest = request.body
    silent = error in (ErrorCode.group_max_size_reached, ErrorCode.unknown_server_error)
    return JoinGroupResponse(error, member_id="" if silent else body.member_id)


def sync_group(request: Request, error: ErrorCode, message: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(error)


def heartbeat(request: Request, error: ErrorCode, message: str | None) -> HeartbeatResponse:
    # W4: an error while loading would make the members of the group rejoin for nothing.
    return HeartbeatResponse(NO_ERROR if error == ErrorCode.coordinator_load_in_progress else error)


def leave_group(request: Request, error: ErrorCode, message: str | None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error)


def describe_groups(request: Request, error: ErrorCode, message: str | None) -> DescribeGroupsResponse:
    body: DescribeGroupsRequest = request.body
    return DescribeGroupsResponse(
        tuple(DescribedClassicGroup(error, group_id, error_message=message) for group_id in body.groups)
    )


def consumer_heartbeat(
    request: Request, error: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatResponse:
    # M1: every error answer has member id null, epoch 0, interval 0.
    return ConsumerGroupHeartbeatResponse(error, message)


def consumer_describe(
    request: Request, error: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    return ConsumerGroupDescribeResponse(
        tuple(DescribedConsumerGroup(error, group_id, message) for group_id in body.group_ids)
    )


def offset_commit(request: Request, error: ErrorCode, message: str | None) -> OffsetCommitResponse:
    body: OffsetCommitRequest = request.body
    return OffsetCommitResponse(refused_commit(body.topics, error), body.topic_ids)


def offset_fetch(request: Request, error: ErrorCode, message: str | None) -> OffsetFetchResponse:
    body: OffsetFetchRequest = request.body
    if body.require_stable and error in _WRITE_FAILED:
        # W5: a stable fetch is a write; old clients retry NOT_COORDINATOR and look up a new coordinator.
        error = ErrorCode.not_coordinator
    return OffsetFetchResponse(
        tuple(refused_fetch(group, error, request.api_version) for group in body.groups)
    )


def offset_delete(request: Request, error: ErrorCode, message: str | None) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error)


def list_groups(request: Request, error: ErrorCode, message: str | None) -> ListGroupsResponse:
    return ListGroupsResponse(error)


def delete_groups(request: Request, error: ErrorCode, message: str | None) -> DeleteGroupsResponse:
    # O13: a group that is named twice has one result.
    body: DeleteGroupsRequest = request.body
    return DeleteGroupsResponse(tuple((group_id, error) for group_id in dict.fromkeys(body.groups_names)))


def prepare_assignment(request: Request, error: ErrorCode, message: str | None) -> PrepareAssignmentResponse:
    return PrepareAssignmentResponse(error, message)


def install_assignment(request: Request, error: ErrorCode, message: str | None) -> InstallAssignmentResponse:
    return InstallAssignmentResponse(error, message)


def register_consumer(request: Request, error: ErrorCode, message: str | None) -> RegisterConsumerResponse:
    return RegisterConsumerResponse(error, message)
