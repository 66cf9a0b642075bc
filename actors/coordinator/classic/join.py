"""JoinGroup (C2 to C9, C21, C22, E3 to E6, E10, E12).

Errors raised as GroupError echo the request's member id; where Kafka answers with "", the reply is made here.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    MEMBER_ID_REQUIRED_VERSION,
    PREPARING_REBALANCE,
    SESSION_TIMER,
    STABLE,
    ClassicGroup,
    ClassicMember,
)
from actors.coordinator.classic.history import cut, tell_gone
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.rebalance import (
    drop_pending,
    joined,
    maybe_complete_join,
    member_list,
    members_changed,
    prepare_rebalance,
    rebalance_or_complete,
    remove_member,
    wait_longer,
)
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.classic.store import generation_records
from actors.coordinator.ground.batching import PAUSE_MS_MAX
from actors.coordinator.ground.kind import hand_on
from actors.coordinator.ground.sparse import put
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CLASSIC, MemberFenced, MemberJoined
from actors.ground.contract import Record, Reply, Request, Result
from actors.ground.limits import CLASSIC_PENDING_MEMBERS_MAX, MEMBER_NAME_CHARACTERS_MAX
from actors.ground.records import GROUP_METADATA, GroupMetadataKey
from actors.protocol.errors import GroupError
from actors.protocol.messages import NO_ERROR, JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

SKIP_ASSIGNMENT_VERSION = 9
"""The first version of JoinGroup that can tell a leader not to assign (KIP-814)."""


def join_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """Answer a JoinGroup at once, or park it until the join phase completes.

    Raises INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID; in Kafka's order (C2).
    """
    body: JoinGroupRequest = request.body
    check_join(state, body)
    group = classic_groups(state).get(body.group_id)
    outcome = Outcome(state, now_ms)
    if group is None:
        hand_on(state, body.group_id, GroupError(ErrorCode.inconsistent_group_protocol))
        make_group(outcome, request)
    elif not _accepts(outcome, group, body.member_id):
        _turn_away(outcome, group, request)
    elif not group.supports(body.protocol_type, body.protocols):
        raise GroupError(ErrorCode.inconsistent_group_protocol)
    elif body.member_id == "":
        _join_as_new(outcome, group, request)
    else:
        _join_as_known(outcome, group, request)
    return outcome.result()


def check_join(state: ShardState, body: JoinGroupRequest) -> None:
    """What every JoinGroup must have, whichever kind of group it is for. Raises INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT."""
    settings = state.settings
    if body.group_id == "":
        raise GroupError(ErrorCode.invalid_group_id)
    shortest_ms, longest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not shortest_ms <= body.session_timeout_ms <= longest_ms:
        raise GroupError(ErrorCode.invalid_session_timeout)


def make_group(outcome: Outcome, request: Request) -> None:
    """C3: only a member without an id makes a group, even if it is then refused for its protocols."""
    body: JoinGroupRequest = request.body
    state = outcome.state
    if body.member_id != "":
        raise GroupError(ErrorCode.unknown_member_id)
    group = ClassicGroup(body.group_id, outcome.now_ms)
    classic_groups(state)[body.group_id] = group
    outcome.records.append(Record(GroupMetadataKey(GROUP_METADATA, body.group_id), group.metadata_value()))
    if group.supports(body.protocol_type, body.protocols):
        _join_as_new(outcome, group, request)
    else:
        _refuse_without_id(outcome, request, ErrorCode.inconsistent_group_protocol)


def _accepts(outcome: Outcome, group: ClassicGroup, member_id: str) -> bool:
    """C5. While members rejoin, places are given in the order of joining, so that a group above a lowered
    limit shrinks; therefore the limit counts parked joins then (and may be passed, C5)."""
    size_max = outcome.state.settings.group_max_size
    if group.state is EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.join_token is not None) or group.parked_joins < size_max
    return member is not None or len(group.members) < size_max


def _turn_away(outcome: Outcome, group: ClassicGroup, request: Request) -> None:
    """C5: there is no place; who asked is no member and no pending member any longer."""
    body: JoinGroupRequest = request.body
    cause = Cause("the group is full", body.member_id, rule="C5")
    member = group.members.get(body.member_id)
    if member is not None:
        remove_member(outcome, group, member, cause, MemberFenced)
    elif body.member_id in group.pending_joins:
        drop_pending(outcome, group, body.member_id, cause, MemberFenced)
    _refuse_without_id(outcome, request, ErrorCode.group_max_size_reached)
    maybe_complete_join(outcome, group)


def _refuse_without_id(outcome: Outcome, request: Request, error: ErrorCode) -> None:
    outcome.answer(request.token, JoinGroupResponse(error), request.body.group_id)


def _join_as_new(outcome: Outcome, group: ClassicGroup, request: Request) -> None:
    """A client without member id gets one: `{client id or instance id}-{UUID}` (C7, E3, E4)."""
    body: JoinGroupRequest = request.body
    instance_id = body.group_instance_id
    name = request.client_id if instance_id is None else instance_id
    member_id = f"{name[:MEMBER_NAME_CHARACTERS_MAX]}-{outcome.state.new_id()}"
    if instance_id is not None:
        mapped = group.static_members.get(instance_id)
        if mapped is not None:
            new = ClassicMember.joining(request, member_id, group.last_member)
            _replace_static_member(outcome, group, request, new)
            return
    elif request.api_version >= MEMBER_ID_REQUIRED_VERSION:
        _hand_out_id(outcome, group, request, member_id)
        return
    _add_member(outcome, group, request, member_id)


def _hand_out_id(outcome: Outcome, group: ClassicGroup, request: Request, member_id: str) -> None:
    """C7, KIP-394: only a client that comes back with the id becomes a member, so that one whose answers
    get lost does not fill the group."""
    body: JoinGroupRequest = request.body
    if len(group.pending_joins) >= CLASSIC_PENDING_MEMBERS_MAX:
        _refuse_without_id(outcome, request, ErrorCode.group_max_size_reached)
        return
    key = (SESSION_TIMER, group.group_id, member_id)
    group.pending_joins = put(group.pending_joins, member_id, key)
    outcome.state.timers.schedule(key, outcome.now_ms + body.session_timeout_ms)
    answer = JoinGroupResponse(ErrorCode.member_id_required, member_id=member_id)
    outcome.answer(request.token, answer, group.group_id)


def _note_return(outcome: Outcome, group: ClassicGroup, body: JoinGroupRequest) -> None:
    """Note how long a client took to come back with its id: others of the group may take as long to come at
    all, for want of processor time, theirs or this leader's."""
    ends_ms = outcome.state.timers.deadline_ms(group.pending_joins[body.member_id])
    if ends_ms is not None:
        took_ms = outcome.now_ms - (ends_ms - body.session_timeout_ms)
        group.slowest_return_ms = max(group.slowest_return_ms, min(took_ms, PAUSE_MS_MAX))


def _add_member(outcome: Outcome, group: ClassicGroup, request: Request, member_id: str) -> None:
    body: JoinGroupRequest = request.body
    member = ClassicMember.joining(request, member_id, group.last_member)
    member.is_new = True
    if group.state is PREPARING_REBALANCE:
        group.newcomers += 1
        group.last_newcomer_ms = outcome.now_ms
        group.new_member_added |= group.previous_state is EMPTY
        wait_longer(outcome, group, body.rebalance_timeout_ms)
    if not group.members:
        group.protocol_type = body.protocol_type
    group.add(member)
    group.park_join(member, request.token)
    # C12: it cannot send heartbeats while its join is parked, and a client that is gone would only be
    # noticed by this timer.
    timeout_ms = outcome.state.settings.classic_new_member_join_timeout_ms
    outcome.state.timers.schedule(member.session_key, outcome.now_ms + timeout_ms)
    _tell_joined(outcome, group, member, request)
    members_changed(outcome, group, Cause("new member", member_id, body.reason, "C8"))


def _tell_joined(outcome: Outcome, group: ClassicGroup, member: ClassicMember, request: Request) -> None:
    outcome.events.append(
        MemberJoined(
            outcome.now_ms,
            group.group_id,
            CLASSIC,
            group.generation,
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            cut(request.body.reason),
            len(group.members),
            request.client_software,
            member.session_timeout_ms,
        )
    )


def _join_as_known(outcome: Outcome, group: ClassicGroup, request: Request) -> None:
    """Take in a client that has a member id, pending (C8) or in use (C9)."""
    body: JoinGroupRequest = request.body
    member_id = body.member_id
    if member_id in group.pending_joins:
        if body.group_instance_id is not None:
            # C8: the id stays usable.
            _refuse_without_id(outcome, request, ErrorCode.unknown_server_error)
            return
        _note_return(outcome, group, body)
        _add_member(outcome, group, request, member_id)
        return
    member = group.find(member_id, body.group_instance_id)
    same = member.protocols == body.protocols
    if group.state is PREPARING_REBALANCE or member.is_new:
        _rejoin(outcome, group, request, "member rejoined")
    elif same and (group.state is COMPLETING_REBALANCE or member_id != group.leader):
        # It missed the answer of this generation, or comes without need: nobody else is disturbed.
        outcome.answer(request.token, joined(group, member), group.group_id)
    elif not same:
        _rejoin(outcome, group, request, "member changed its protocols")
    else:
        # The leader has no other way to ask for a new assignment, say when partitions were added.
        _rejoin(outcome, group, request, "leader rejoined")


def _rejoin(outcome: Outcome, group: ClassicGroup, request: Request, what: str) -> None:
    body: JoinGroupRequest = request.body
    member = group.members[body.member_id]
    group.update(member, body.protocols)
    member.rebalance_timeout_ms = body.rebalance_timeout_ms
    member.session_timeout_ms = body.session_timeout_ms
    # Kafka forgets the request that was parked before; its client deserves an answer (C9).
    superseded = JoinGroupResponse(ErrorCode.rebalance_in_progress, member_id=member.member_id)
    outcome.answer(group.take_join(member), superseded, group.group_id)
    group.park_join(member, request.token)
    if not (member.is_new and group.has_working_members):
        rebalance_or_complete(outcome, group, Cause(what, member.member_id, body.reason, "C9"))


def _replace_static_member(
    outcome: Outcome, group: ClassicGroup, request: Request, new: ClassicMember
) -> None:
    """C21, E3: the instance restarted. No rebalance if the group is Stable and keeps its protocol, even when
    the subscription changed. Its session is as long as its old self's until its next heartbeat."""
    instance_id = request.body.group_instance_id
    old = group.members[group.static_members[instance_id]]
    leader_before = group.leader or ""
    _fence(outcome, group, old)
    group.replace(old, new)
    outcome.state.timers.schedule(new.session_key, outcome.now_ms + old.session_timeout_ms)
    cause = Cause("static member restarted", new.member_id, request.body.reason, "C21")
    tell_gone(outcome, group, MemberFenced, cause._replace(member_id=old.member_id), old)
    _tell_joined(outcome, group, new, request)
    if group.state is STABLE and not old.is_new and group.select_protocol() == group.protocol_name:
        outcome.records += generation_records(outcome.state, group)
        answer = _restarted(group, new, leader_before, request.api_version)
        outcome.replies.append(Reply(request.token, answer, group.group_id))
        return
    group.park_join(new, request.token)
    if group.state is PREPARING_REBALANCE:
        maybe_complete_join(outcome, group)
    else:
        # CompletingRebalance: the assignment under way names the old member id.
        prepare_rebalance(outcome, group, cause)


def _fence(outcome: Outcome, group: ClassicGroup, old: ClassicMember) -> None:
    """Refuse whoever still waits under the instance's old member id: it is a duplicate or a ghost."""
    fenced = ErrorCode.fenced_instance_id
    outcome.answer(group.take_join(old), JoinGroupResponse(fenced, member_id=old.member_id), group.group_id)
    outcome.answer(old.sync_token, SyncGroupResponse(fenced), group.group_id)
    old.sync_token = None
    outcome.state.timers.cancel(old.session_key)


def _restarted(
    group: ClassicGroup, member: ClassicMember, leader_before: str, api_version: int
) -> JoinGroupResponse:
    """C22, KIP-814: a leader that restarted learns who is in the group but is told not to assign. Clients too
    old for that see the old leader's id instead, and so take themselves for followers."""
    skips = api_version >= SKIP_ASSIGNMENT_VERSION
    leads = skips and member.member_id == group.leader
    return JoinGroupResponse(
        NO_ERROR,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        leader=(group.leader or "") if skips else leader_before,
        skip_assignment=leads,
        member_id=member.member_id,
        members=member_list(group) if leads else (),
    )
