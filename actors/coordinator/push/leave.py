"""LeaveGroup for a push group: consumers are unregistered, which an administrator may ask for, too (D11)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.group import PushGroup
from actors.coordinator.push.rebalance import set_due
from actors.coordinator.push.state import push_groups
from actors.ground.contract import Request, Result
from actors.protocol.messages import (
    NO_ERROR,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
)


def leave_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """Note who is to leave. It goes with the next rebalance, when it has stopped its fetchers: whoever asks
    for it may not be the consumer itself."""
    body: LeaveGroupRequest = request.body
    group = push_groups(state)[body.group_id]
    outcome = Outcome(state, now_ms)
    left = tuple(_left(outcome, group, leaving) for leaving in body.members)
    outcome.answer(request.token, LeaveGroupResponse(NO_ERROR, left), body.group_id)
    return outcome.result()


def _left(outcome: Outcome, group: PushGroup, leaving: LeavingMember) -> LeftMember:
    consumer = group.consumers.get(leaving.member_id)
    if consumer is None:
        error = ErrorCode.unknown_member_id
    else:
        error, consumer.is_leaving = NO_ERROR, True
        cause = ("member is to leave", "D11", leaving.member_id)
        set_due(outcome.state, group, outcome.now_ms, cause)
    return LeftMember(leaving.member_id, leaving.group_instance_id, error)
