"""LeaveGroup (C23, E7, W7): members leave in batches, and a batch makes one rebalance."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.group import EMPTY, ClassicGroup
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.rebalance import drop_pending, members_changed, remove_member
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.ground.kind import hand_on
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request, Result
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
)


def leave_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """Answer a LeaveGroup. Errors stand on each member; the top is NONE, for a missing group too (W7). Raises
    INVALID_GROUP_ID."""
    body: LeaveGroupRequest = request.body
    if body.group_id == "":
        raise GroupError(ErrorCode.invalid_group_id)
    outcome = Outcome(state, now_ms)
    group = classic_groups(state).get(body.group_id)
    if group is None:
        hand_on(state, body.group_id, GroupError(ErrorCode.unknown_member_id))
    left = []
    for leaving in body.members:
        error = ErrorCode.unknown_member_id if group is None else _leave(outcome, group, leaving)
        left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
    gone = [member for member in left if member.error_code is NO_ERROR]
    if group is not None and gone and group.state is not EMPTY:
        members_changed(outcome, group, _cause(body, gone))
    outcome.answer(request.token, LeaveGroupResponse(NO_ERROR, tuple(left)), body.group_id)
    return outcome.result()


def _leave(outcome: Outcome, group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    """Take one member out, or say why not (E7)."""
    member_id, instance_id, reason = leaving
    cause = Cause("left", member_id, reason, "C23")
    if member_id == "":
        # An operator removes an instance by its name (KIP-345); nothing names nobody.
        member_id = group.static_members.get(instance_id, "") if instance_id is not None else ""
    elif member_id in group.pending_joins:
        drop_pending(outcome, group, member_id, cause)
        return NO_ERROR
    try:
        member = group.find(member_id, instance_id)
    except GroupError as error:
        return error.error_code
    remove_member(outcome, group, member, cause)
    return NO_ERROR


def _cause(body: LeaveGroupRequest, gone: list[LeftMember]) -> Cause:
    if len(gone) == 1:
        first = gone[0]
        reason = next((leaving.reason for leaving in body.members if leaving[:2] == first[:2]), None)
        return Cause("member left", first.member_id or None, reason, "C23")
    return Cause(f"{len(gone)} members left", rule="C23")
