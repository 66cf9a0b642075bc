"""What each group API answers when a request as a whole is refused.

One place, because Kafka has no common form: OffsetCommit has no field for a request-wide error and says it
on every partition, the batch APIs say it for every group, JoinGroup gives the member id back, and a few
codes are replaced by ones that old clients know how to retry (W3, W4, W5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.assignment_jobs import ASSIGNED, AssignedResponse
from actors.coordinator.restore import RESTORE, RestoreResponse
from actors.coordinator.transactions import refusals as transaction_refusals
from actors.ground.contract import Request
from actors.protocol import api_keys
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

_AS_COORDINATOR_ERROR = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}
"""W3: what goes wrong below the coordinator reaches clients as a coordinator's error."""
_WRITE_FAILED = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.coordinator_not_available,
    }
)

Refusal = Callable[[Request, ErrorCode, str | None], Any]


def refusal(request: Request, error_code: int, message: str | None = None) -> Any:
    """The response body that refuses `request` with `error_code`; `message` where the answer has a place.

    Raises KeyError for an API that no coordinator answers.
    """
    error = ErrorCode(error_code)
    return _BY_API_KEY[request.api_key](request, _AS_COORDINATOR_ERROR.get(error, error), message)


def _join_group(request: Request, error: ErrorCode, message: str | None) -> JoinGroupResponse:
    # Section 11: errors echo the request's member id, save GROUP_MAX_SIZE_REACHED and unexpected ones.
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


def _offset_commit(request: Request, error: ErrorCode, message: str | None) -> OffsetCommitResponse:
    body: OffsetCommitRequest = request.body
    return OffsetCommitResponse(refused_commit(body.topics, error), body.topic_ids)


def _offset_fetch(request: Request, error: ErrorCode, message: str | None) -> OffsetFetchResponse:
    body: OffsetFetchRequest = request.body
    if body.require_stable and error in _WRITE_FAILED:
        # W5: a stable fetch is a write; old clients retry NOT_COORDINATOR and look up a new coordinator.
        error = ErrorCode.not_coordinator
    return OffsetFetchResponse(
        tuple(refused_fetch(group, error, request.api_version) for group in body.groups)
    )


def _offset_delete(request: Request, error: ErrorCode, message: str | None) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error)


def _describe_groups(request: Request, error: ErrorCode, message: str | None) -> DescribeGroupsResponse:
    body: DescribeGroupsRequest = request.body
    return DescribeGroupsResponse(
        tuple(DescribedClassicGroup(error, group_id, error_message=message) for group_id in body.groups)
    )


def _list_groups(request: Request, error: ErrorCode, message: str | None) -> ListGroupsResponse:
    return ListGroupsResponse(error)


def _delete_groups(request: Request, error: ErrorCode, message: str | None) -> DeleteGroupsResponse:
    # O13: a group that is named twice has one result.
    body: DeleteGroupsRequest = request.body
    return DeleteGroupsResponse(tuple((group_id, error) for group_id in dict.fromkeys(body.groups_names)))


def _consumer_group_heartbeat(
    request: Request, error: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatResponse:
    # Section 11, M1: every error answer has member id null, epoch 0, interval 0.
    return ConsumerGroupHeartbeatResponse(error, message)


def _consumer_group_describe(
    request: Request, error: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    return ConsumerGroupDescribeResponse(
        tuple(DescribedConsumerGroup(error, group_id, message) for group_id in body.group_ids)
    )


def _restore(request: Request, error: ErrorCode, message: str | None) -> RestoreResponse:
    return RestoreResponse(error, message)


def _assigned(request: Request, error: ErrorCode, message: str | None) -> AssignedResponse:
    return AssignedResponse(False)


_BY_API_KEY: dict[int, Refusal] = {
    api_keys.JOIN_GROUP: _join_group,
    api_keys.SYNC_GROUP: _sync_group,
    api_keys.HEARTBEAT: _heartbeat,
    api_keys.LEAVE_GROUP: _leave_group,
    api_keys.OFFSET_COMMIT: _offset_commit,
    api_keys.OFFSET_FETCH: _offset_fetch,
    api_keys.OFFSET_DELETE: _offset_delete,
    api_keys.DESCRIBE_GROUPS: _describe_groups,
    api_keys.LIST_GROUPS: _list_groups,
    api_keys.DELETE_GROUPS: _delete_groups,
    api_keys.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    api_keys.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
    RESTORE: _restore,
    ASSIGNED: _assigned,
    **transaction_refusals.BY_API_KEY,
}
_INSIDE = {RESTORE, ASSIGNED, *transaction_refusals.BY_API_KEY}
assert set(_BY_API_KEY) == api_keys.COORDINATOR_APIS | _INSIDE
