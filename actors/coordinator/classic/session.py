"""What keeps a member of a classic group in it: SyncGroup, Heartbeat, and commits (C17 to C20, O1 to O3)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    ClassicMember,
    Step,
)
from actors.coordinator.classic.history import move
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.rebalance import arm_session, end_rebalance
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.ground.alike import shared_bytes
from actors.coordinator.ground.kind import hand_on
from actors.coordinator.ground.sparse import put
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CLASSIC
from actors.ground.contract import Request, Result, answered, new_tuple
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

PROTOCOL_MANDATORY_VERSION = 5
"""KIP-559: from here on SyncGroup names protocol type and protocol."""

_ALIVE = HeartbeatResponse(NO_ERROR)
_REJOIN = HeartbeatResponse(ErrorCode.rebalance_in_progress)


def heartbeat(state: ShardState, request: Request, now_ms: int) -> Result:
    """C20. Raises INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.

    The hottest path of all: in a steady group two lookups, one comparison, one timer store.
    """
    body: HeartbeatRequest = request.body
    group_id, generation_id, member_id, group_instance_id = body
    group: ClassicGroup | None = state.of[CLASSIC].groups.get(group_id)
    if group is None:
        raise _absent(state, group_id)
    member = group.members.get(member_id)
    if member is None or group_instance_id is not None:
        member = group.find(member_id, group_instance_id)
    if generation_id != group.generation:
        raise GroupError(ErrorCode.illegal_generation)
    state.timers.schedule(member.session_key, now_ms + member.session_timeout_ms)
    return answered(request[0], _REJOIN if group.state is PREPARING_REBALANCE else _ALIVE, group_id)


def sync_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """C17, C18: the leader's assignments end the rebalance; everybody else waits for them.

    Raises INVALID_GROUP_ID, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
    """
    body: SyncGroupRequest = request.body
    check_sync(request)
    group = classic_groups(state).get(body.group_id)
    if group is None:
        raise _absent(state, body.group_id)
    member = group.find(body.member_id, body.group_instance_id)
    if body.generation_id != group.generation:
        raise GroupError(ErrorCode.illegal_generation)
    if body.protocol_type not in (None, group.protocol_type) or body.protocol_name not in (
        None,
        group.protocol_name,
    ):
        raise GroupError(ErrorCode.inconsistent_group_protocol)
    if group.state is PREPARING_REBALANCE:
        raise GroupError(ErrorCode.rebalance_in_progress)
    outcome = Outcome(state, now_ms)
    group.pending_syncs = put(group.pending_syncs, member.member_id, None)
    if group.state is STABLE:
        outcome.answer(request.token, _synced(group, member), group.group_id)
    else:
        # A second sync of one member supersedes the first, which Kafka would never answer.
        superseded = SyncGroupResponse(ErrorCode.rebalance_in_progress)
        outcome.answer(member.sync_token, superseded, group.group_id)
        member.sync_token = request.token
        if member.member_id == group.leader:
            _stabilise(outcome, group, body)
    if not group.pending_syncs:
        state.timers.cancel(group.sync_key)
    return outcome.result()


def check_sync(request: Request) -> None:
    """The check that comes before all others, whichever kind of group the SyncGroup is for (W2).
    Raises INCONSISTENT_GROUP_PROTOCOL."""
    body: SyncGroupRequest = request.body
    if request.api_version >= PROTOCOL_MANDATORY_VERSION and None in (body.protocol_type, body.protocol_name):
        raise GroupError(ErrorCode.inconsistent_group_protocol)


def _stabilise(outcome: Outcome, group: ClassicGroup, body: SyncGroupRequest) -> None:
    """C18: whoever the leader left out gets an empty assignment. The host keeps these answers back until the
    records are committed, so the group may be Stable at once: if they fail, leadership is lost with them."""
    assert group.state is COMPLETING_REBALANCE
    assignments = dict(body.assignments)
    move(outcome, group, Step.LEADER_SYNCED)
    for member in group.members.values():
        member.assignment = shared_bytes(assignments.get(member.member_id, b""))
        if member.sync_token is not None:
            outcome.answer(member.sync_token, _synced(group, member), group.group_id)
            member.sync_token = None
            # Its session may have run out unnoticed while it waited (C12).
            arm_session(outcome, member)
    end_rebalance(outcome, group)


def _synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    fields = NO_ERROR, group.protocol_type, group.protocol_name, member.assignment
    response: SyncGroupResponse = new_tuple(SyncGroupResponse, fields)
    return response


def validate_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """Whether the members of the group allow this OffsetCommit (O1, O3); it also counts as a heartbeat.

    Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS. To be called
    only for a live classic group.
    """
    body: OffsetCommitRequest = request.body
    group: ClassicGroup = state.of[CLASSIC].groups[body.group_id]  # as `classic_groups` has them
    generation = body.generation_id_or_member_epoch
    if group.state is EMPTY and generation < 0:
        # A consumer without group management, or an admin client, whatever member id it gives (O1).
        return
    if generation < 0 and body.member_id == "" and body.group_instance_id is None:
        raise GroupError(ErrorCode.unknown_member_id)
    member = group.find(body.member_id, body.group_instance_id)
    if generation != group.generation:
        raise GroupError(ErrorCode.illegal_generation)
    if group.state is COMPLETING_REBALANCE:
        raise GroupError(ErrorCode.rebalance_in_progress)
    state.timers.schedule(member.session_key, now_ms + member.session_timeout_ms)


def _absent(state: ShardState, group_id: str) -> GroupError:
    """C17, C20: no such group; W2: or no group id at all. Raises OfOtherKind."""
    error = GroupError(ErrorCode.invalid_group_id if group_id == "" else ErrorCode.unknown_member_id)
    hand_on(state, group_id, error)
    return error
