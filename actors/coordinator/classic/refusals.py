"""What the APIs of classic members answer when a request as a whole is refused."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.refusals import Refusal
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.messages import (
    NO_ERROR,
    DescribedClassicGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)


def _join_group(request: Request, error: ErrorCode, message: str | None) -> JoinGroupResponse:
    # Errors echo the request's member id, save GROUP_MAX_SIZE_REACHED and unexpected ones.
    body: JoinGroupRequest = request.body
    silent = error in (ErrorCode.group_max_size_reached, ErrorCode.unknown_server_error)
    return JoinGroupResponse(error, member_id="" if silent else body.member_id)


def _sync_group(request: Request, error: ErrorCode, message: str | None) -> SyncGroupResponse:
    return SyncGroupResponse(error)


def _heartbeat(request: Request, error: ErrorCode, message: str | None) -> HeartbeatResponse:
    # W4: an error while loading would make the members of the group rejoin for nothing.
    return HeartbeatResponse(NO_ERROR if error == ErrorCode.coordinator_load_in_progress else error)


def _leave_group(request: Request, error: ErrorCode, message: str | None) -> LeaveGroupResponse:
    return LeaveGroupResponse(error)


def _describe_groups(request: Request, error: ErrorCode, message: str | None) -> DescribeGroupsResponse:
    body: DescribeGroupsRequest = request.body
    return DescribeGroupsResponse(
        tuple(DescribedClassicGroup(error, group_id, error_message=message) for group_id in body.groups)
    )


REFUSALS: dict[int, Refusal] = {
    api_keys.JOIN_GROUP: _join_group,
    api_keys.SYNC_GROUP: _sync_group,
    api_keys.HEARTBEAT: _heartbeat,
    api_keys.LEAVE_GROUP: _leave_group,
    api_keys.DESCRIBE_GROUPS: _describe_groups,
}
