"""Members that speak the classic protocol in a consumer group (G3 to G6).

The group's epochs and assignments are told in the classic protocol's words: a member's generation is its
member epoch, it is never the leader, and its assignment is ready when it syncs. So no request is parked.
"""

from __future__ import annotations

from collections import Counter

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.group import MEMBER_ID_REQUIRED_VERSION, ClassicMember
from actors.coordinator.classic.join import check_join, make_group
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.protocols import CONSUMER_PROTOCOL_TYPE
from actors.coordinator.classic.rebalance import prepare_rebalance
from actors.coordinator.classic.session import check_sync
from actors.coordinator.consumer.decision import Decision
from actors.coordinator.consumer.heartbeat import decide
from actors.coordinator.consumer.leave import drop_timers, remove_members
from actors.coordinator.consumer.members import (
    find_static,
    join_static,
    refuse_if_full,
    speak_as,
    unknown_member,
)
from actors.coordinator.consumer.migration.downgrade import assignment_bytes, classic_twin, is_due, take_over
from actors.coordinator.consumer.migration.policy import allows_classic_members
from actors.coordinator.consumer.migration.repair import repair
from actors.coordinator.consumer.migration.timers import JOIN_TIMER, SYNC_TIMER, join_key, sync_key
from actors.coordinator.consumer.migration.upgrade import with_ids
from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.group import NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import (
    NO_STANDING,
    SESSION_TIMER,
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    Terms,
    session_key,
)
from actors.coordinator.consumer.model.metadata import metadata_hash, regex_topics_of
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.consumer.regexes import subscribed_names
from actors.coordinator.consumer.target import is_interval_over
from actors.coordinator.consumer.views import delete_records, forget
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.partitions import EMPTY, difference, unpack
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import CAUSE_MEMBER_LEFT
from actors.ground.contract import NOTHING, Reply, Request, Result
from actors.protocol import api_keys
from actors.protocol.consumer_protocol import Subscription, read_subscription
from actors.protocol.errors import GroupError, MalformedRequest
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

_ALIVE = HeartbeatResponse(NO_ERROR)
_REJOIN = HeartbeatResponse(ErrorCode.rebalance_in_progress)


# JoinGroup.


def join_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """JoinGroup to a consumer group: one without members gives way to a classic group (C28); in one that has
    some, the client is a member among them (G3), and every error carries member id ""."""
    check_join(state, request.body)
    if consumer_groups(state)[request.body.group_id].size == 0:
        return _give_way(state, request, now_ms)
    try:
        return _join(state, request, now_ms)
    except GroupError as error:
        return _told(request, JoinGroupResponse(error.error_code))
    except MalformedRequest:
        return _told(request, JoinGroupResponse(ErrorCode.inconsistent_group_protocol))


def _give_way(state: ShardState, request: Request, now_ms: int) -> Result:
    """Let a classic group take the place of the consumer group, which is empty, if the client has no member
    id (C3)."""
    body: JoinGroupRequest = request.body
    outcome = Outcome(state, now_ms)
    if body.member_id == "":
        outcome.records += delete_records(state, body.group_id)
        forget(state, body.group_id)
    make_group(outcome, request)
    return outcome.result()


def _join(state: ShardState, request: Request, now_ms: int) -> Result:
    body: JoinGroupRequest = request.body
    group = consumer_groups(state)[body.group_id]
    if not allows_classic_members(state.settings):
        raise GroupError(ErrorCode.inconsistent_group_protocol)
    member_id = body.member_id or state.new_id()
    refuse_if_full(group, member_id, body.group_instance_id, state.settings.group_consumer_max_size)
    if not _supports(group, body):
        raise GroupError(ErrorCode.inconsistent_group_protocol)
    is_nameless = body.member_id == "" and body.group_instance_id is None
    if is_nameless and request.api_version >= MEMBER_ID_REQUIRED_VERSION:
        return _told(request, JoinGroupResponse(ErrorCode.member_id_required, member_id=member_id))
    # All protocols of a consumer carry the same subscription.
    subscription = read_subscription(body.protocols[0][1])
    decision = _as_heartbeat(state, request, subscription, member_id, now_ms)
    _find_member(decision, body)
    replaced_id = _last_consumer_member(decision, body.group_instance_id)
    if replaced_id is not None:
        return _join_and_downgrade(decision, request, replaced_id)
    decide(decision)
    return _joined(decision, request)


def _supports(group: ConsumerGroup, body: JoinGroupRequest) -> bool:
    """Whether all classic members, the asking one included, offer one of its protocols. A name that a member
    lists twice counts twice, and so drops out, as in a classic group (C6)."""
    if body.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    offers = [m.terms.classic[1] for m in group.members.values() if m.terms and m.terms.classic]
    times = Counter(name for protocols in offers for name, _ in protocols)
    return any(times[name] == len(offers) for name, _ in body.protocols)


def _as_heartbeat(
    state: ShardState, request: Request, subscription: Subscription, member_id: str, now_ms: int
) -> Decision:
    """Turn a JoinGroup into the heartbeat that a consumer member would join with."""
    body: JoinGroupRequest = request.body
    heartbeat = ConsumerGroupHeartbeatRequest(
        body.group_id,
        member_id,
        0,
        body.group_instance_id,
        subscription.rack_id,
        body.rebalance_timeout_ms,
        subscription.topics,
        "",
        None,
        with_ids(subscription.owned, state.image),
    )
    decision = Decision(
        state, request._replace(body=heartbeat), consumer_groups(state)[body.group_id], now_ms
    )
    decision.classic = (body.session_timeout_ms, body.protocols)
    return decision


def _find_member(decision: Decision, body: JoinGroupRequest) -> None:
    """Who joins. A dynamic member that nobody knows is new, whatever id it gives (G3).

    Raises GroupError: 25 no such instance, 82 the instance belongs to another member id.
    """
    if body.group_instance_id is None:
        member = decision.group.member(decision.member_id)
        if member is not None:
            speak_as(decision, member)
    elif body.member_id:
        speak_as(decision, find_static(decision.group, body.group_instance_id, body.member_id))
    else:
        join_static(decision, body.group_instance_id)


def _joined(decision: Decision, request: Request) -> Result:
    state, group, member_id = decision.state, decision.group, decision.member_id
    body: JoinGroupRequest = request.body
    if decision.replaced_id is not None:
        drop_timers(state, group, decision.replaced_id)
    group_settings.note_checked(state, group)
    timers = state.timers
    timers.schedule((SESSION_TIMER, group.group_id, member_id), decision.now_ms + body.session_timeout_ms)
    timers.cancel(join_key(group.group_id, member_id))
    timers.schedule(sync_key(group.group_id, member_id), decision.now_ms + body.rebalance_timeout_ms)
    answer = JoinGroupResponse(
        NO_ERROR,
        decision.current.member_epoch,
        CONSUMER_PROTOCOL_TYPE,
        body.protocols[0][0],
        member_id=member_id,
    )
    return Result(decision.records, (Reply(request.token, answer, group.group_id),), decision.events)


# A static member that was the last of the consumer protocol comes back with the classic one (G7).


def _last_consumer_member(decision: Decision, instance_id: str | None) -> str | None:
    """The id of the member whose place is taken, if the group is a classic one without it."""
    if instance_id is None:
        return None
    static_id = decision.group.static_member_id(instance_id)
    if static_id is None or _terms(decision.group.members[static_id]).classic is not None:
        return None
    return static_id if is_due(decision.state, decision.group, (static_id,), joining=1) else None


def _join_and_downgrade(decision: Decision, request: Request, replaced_id: str) -> Result:
    """The group becomes a classic one: without a rebalance if everybody has what the target gives, and the
    newcomer wants what the one before wanted (KAFKA-19546). Else its JoinGroup waits for the rebalance like
    everybody's (Kafka answers it with generation 0, which the member's SyncGroup is then refused for)."""
    body: JoinGroupRequest = request.body
    state, group = decision.state, decision.group
    joining = ClassicMember.joining(request, decision.member_id)
    outcome = Outcome(state, decision.now_ms)
    live = classic_twin(outcome, group, (replaced_id,), joining)
    joining.assignment = assignment_bytes(
        decision.target or EMPTY, joining.metadata(live.protocol_name), state.image
    )
    rebalances = not (_is_reconciled(group, replaced_id) and _wants_the_same(decision))
    for member_id in list(group.members):
        drop_timers(state, group, member_id)
    take_over(outcome, group, live, rebalances=rebalances)
    if rebalances:
        live.park_join(joining, request.token)
        cause = Cause("the group became a classic one", joining.member_id, body.reason)
        prepare_rebalance(outcome, live, cause)
    else:
        answer = JoinGroupResponse(
            NO_ERROR, live.generation, live.protocol_type, live.protocol_name, member_id=joining.member_id
        )
        outcome.answer(request.token, answer, group.group_id)
    return outcome.result()


def _is_reconciled(group: ConsumerGroup, without_id: str) -> bool:
    epoch = group.assignment_epoch
    others = (member.standing for member_id, member in group.members.items() if member_id != without_id)
    return group.group_epoch == epoch and all(
        each is None or (each.state == STABLE and each.member_epoch == epoch) for each in others
    )


def _wants_the_same(decision: Decision) -> bool:
    before = decision.previous
    names = decision.body.subscribed_topic_names or ()
    return before.subscribed_topic_names == tuple(sorted(set(names))) and before.subscribed_topic_regex == ""


# SyncGroup and Heartbeat.


def sync_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """G4. Raises GroupError: 25, 82, 22, 23, and 27 if the member has to join again first."""
    body: SyncGroupRequest = request.body
    check_sync(request)
    group = consumer_groups(state)[body.group_id]
    member = _find_classic(group, body.member_id, body.group_instance_id)
    current = member.current or NOT_JOINED
    if body.generation_id != current.member_epoch:
        raise GroupError(ErrorCode.illegal_generation)
    session_timeout_ms, protocols = _classic_part(member)
    name, metadata = protocols[0]
    if body.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or body.protocol_name not in (None, name):
        raise GroupError(ErrorCode.inconsistent_group_protocol)
    if current.member_epoch < group.assignment_epoch and current.state != UNREVOKED_PARTITIONS:
        # A member that has to revoke has joined already; it revokes, and then joins.
        _expect_join(state, group, body.member_id, member, now_ms)
        raise GroupError(ErrorCode.rebalance_in_progress)
    state.timers.cancel(sync_key(group.group_id, body.member_id))
    key = session_key(group.group_id, body.member_id)
    state.timers.schedule(key, now_ms + session_timeout_ms)
    assignment = assignment_bytes(current.assigned, metadata, state.image)
    return _told(request, SyncGroupResponse(NO_ERROR, body.protocol_type, body.protocol_name, assignment))


def heartbeat(state: ShardState, request: Request, now_ms: int) -> Result:
    """Answer a classic member's heartbeat (G5). Raises GroupError: 25, 82, 22."""
    body: HeartbeatRequest = request.body
    group = consumer_groups(state)[body.group_id]
    member = _find_classic(group, body.member_id, body.group_instance_id)
    if body.generation_id != (member.standing or NO_STANDING).member_epoch:
        raise GroupError(ErrorCode.illegal_generation)
    key = session_key(group.group_id, body.member_id)
    state.timers.schedule(key, now_ms + _classic_part(member)[0])
    if not _must_rejoin(state, group, member, now_ms):
        return _told(request, _ALIVE)
    _expect_join(state, group, body.member_id, member, now_ms)
    return _told(request, _REJOIN)


def _must_rejoin(state: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> bool:
    current = member.current or NOT_JOINED
    if current.member_epoch < group.assignment_epoch or current.state == UNREVOKED_PARTITIONS:
        return True
    if current.state == UNRELEASED_PARTITIONS:
        return not _waits(group, member)
    if group.group_epoch == group.assignment_epoch and group.checked_image_version == state.image.version:
        return False
    return _is_forgotten(state, group, now_ms)


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether others still hold what the member is to get."""
    current = member.current or NOT_JOINED
    missing = difference(member.target or EMPTY, current.assigned)
    return any(group.is_held(topic_id, number) for topic_id, packed in missing for number in unpack(packed))


def _is_forgotten(state: ShardState, group: ConsumerGroup, now_ms: int) -> bool:
    """Whether a new target is due and only a JoinGroup will make it: no member heartbeats with the consumer
    protocol. (In Kafka the partitions of a member that left such a group, and new ones, stay unread.)"""
    if any(m.terms is not None and m.terms.classic is None for m in group.members.values()):
        return False
    if group.group_epoch > group.assignment_epoch:
        return is_interval_over(state, group, now_ms)
    names = subscribed_names(group, regex_topics_of(group))
    if metadata_hash(names, state.image) != group.metadata_hash:
        return True
    group_settings.note_checked(state, group)
    return False


def _expect_join(
    state: ShardState, group: ConsumerGroup, member_id: str, member: ConsumerMember, now_ms: int
) -> None:
    key = join_key(group.group_id, member_id)
    if key not in state.timers:
        state.timers.schedule(key, now_ms + _terms(member).rebalance_timeout_ms)


def _find_classic(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    member = _find(group, member_id, instance_id)
    if _terms(member).classic is None:
        raise GroupError(ErrorCode.unknown_member_id)
    return member


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        return find_static(group, instance_id, member_id)
    member = group.member(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    return member


def _terms(member: ConsumerMember) -> Terms:
    assert member.terms is not None
    return member.terms


def _classic_part(member: ConsumerMember) -> tuple[int, tuple[tuple[str, bytes], ...]]:
    classic = _terms(member).classic
    assert classic is not None
    return classic


def _told(request: Request, body: object) -> Result:
    return Result((), (Reply(request.token, body, request.body.group_id),))


# LeaveGroup.


def leave_group(state: ShardState, request: Request, now_ms: int) -> Result:
    """G6: members of either protocol leave in one batch, by member id or by instance id; that is how an
    administrator removes members. One epoch for all."""
    body: LeaveGroupRequest = request.body
    group = consumer_groups(state)[body.group_id]
    gone: dict[str, None] = {}
    left = []
    for leaving in body.members:
        error = NO_ERROR
        try:
            gone[_leaving_id(group, leaving)] = None
        except GroupError as refusal:
            error = refusal.error_code
        left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
    result = remove_members(state, group, tuple(gone), CAUSE_MEMBER_LEFT, now_ms) if gone else NOTHING
    answer = Reply(request.token, LeaveGroupResponse(NO_ERROR, tuple(left)), body.group_id)
    return result._replace(replies=(*result.replies, answer))


def _leaving_id(group: ConsumerGroup, leaving: LeavingMember) -> str:
    """Return the id of the member that leaves. Raises GroupError: 25, 82."""
    member_id, instance_id, _ = leaving
    if instance_id is not None and member_id == "":
        member_id = group.static_member_id(instance_id) or ""
    _find(group, member_id, instance_id)
    return member_id


# Timers.


def _on_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    group, member_id = consumer_groups(state).get(str(key[1])), str(key[2])
    member = None if group is None else group.member(member_id)
    if group is None or member is None or _terms(member).classic is None:
        return NOTHING
    cause = "did not join in time" if key[0] == JOIN_TIMER else "did not sync in time"
    return remove_members(state, group, (member_id,), cause, now_ms)


AREA = Area(
    handlers={
        api_keys.JOIN_GROUP: join_group,
        api_keys.SYNC_GROUP: sync_group,
        api_keys.HEARTBEAT: heartbeat,
        api_keys.LEAVE_GROUP: leave_group,
    },
    timers={JOIN_TIMER: _on_timer, SYNC_TIMER: _on_timer},
    on_elected=repair,
)
