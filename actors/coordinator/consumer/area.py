"""Consumer groups (KIP-848): ConsumerGroupHeartbeat, the group's timers, and the area's face to the rest.

One heartbeat is validated (M1), finds its group and member and is fenced (M2 to M4), updates the member
(M5), raises the group epoch if that matters (M6), perhaps computes a target (M8) and reconciles the member
with it (M11 to M13). A steady heartbeat, which is nearly all of them, does none of this. The commit and
fetch checks and the describe views are in `consumer_views`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from actors.coordinator.consumer import apply as consumer_apply
from actors.coordinator.consumer import group_settings
from actors.coordinator.consumer import history as consumer_history
from actors.coordinator.consumer.forming import FORMING_TIMER, may_wait, next_joins, wait
from actors.coordinator.consumer.group import (
    FIRST_EPOCH,
    REBALANCE_TIMER,
    REGEX_TIMER,
    SESSION_TIMER,
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
)
from actors.coordinator.consumer.history import found_under_way
from actors.coordinator.consumer.leave import drop_timers, leave, rebalance_over, session_over
from actors.coordinator.consumer.members import (
    find_group,
    find_member,
    find_or_create_group,
    refuse_if_full,
    speak_as,
    unknown_member,
)
from actors.coordinator.consumer.metadata import metadata_hash, subscribed_topic_ids, topic_ids
from actors.coordinator.consumer.migration.repair import is_consumer_group
from actors.coordinator.consumer.migration.upgrade import take_over
from actors.coordinator.consumer.reconcile import Goal, reconcile
from actors.coordinator.consumer.regexes import (
    other_subscriptions,
    resolve,
    subscribed_names,
    update_regexes,
)
from actors.coordinator.consumer.request import validate
from actors.coordinator.consumer.target import update_target
from actors.coordinator.consumer.turn import NEW_MEMBER, Turn
from actors.coordinator.consumer.views import (
    delete_records,
    describe,
    described,
    forget,
    is_empty,
    listed,
    subscribed_topics,
    validate_commit,
    validate_fetch,
)
from actors.coordinator.ground import regex
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.partitions import EMPTY
from actors.coordinator.ground.refusals import refusal
from actors.coordinator.ground.slices import at_once, begun, group_members, sliced
from actors.coordinator.ground.state import ShardState
from actors.coordinator.settled import is_as_checked
from actors.coordinator.told.consumer_events import (
    CAUSE_MEMBER_JOINED,
    CAUSE_METADATA_CHANGED,
    CAUSE_SUBSCRIPTION_CHANGED,
)
from actors.ground.contract import NOTHING, Record, Reply, Request, Result, answered
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
)
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = [
    "AREA",
    "delete_records",
    "describe",
    "described",
    "forget",
    "is_empty",
    "listed",
    "subscribed_topics",
    "validate_commit",
    "validate_fetch",
]

_AT_REST = frozenset({"Empty", "Stable"})
_new_tuple = tuple.__new__
_NOTHING_NEW = ConsumerGroupHeartbeatRequest("", "", 0)[4:]
"""The fields after the instance id of a heartbeat that repeats nothing (A5)."""
WAITING_HEARTBEAT_INTERVAL_MS = 1_000
"""Told to a member that waits for partitions, to that one alone. Never less: librdkafka takes the interval
as the time-out of its next heartbeat."""


def heartbeat(state: ShardState, request: Request, now_ms: int) -> Result:
    """Raises GroupError with the codes of row A8."""
    body: ConsumerGroupHeartbeatRequest = request.body
    group = state.consumer.get(body.group_id)
    if group is not None:
        steady = _steady(state, group, request, now_ms)
        if steady is not None:
            return steady
    validate(body, request.api_version, state.settings)
    if body.member_epoch < 0:
        return leave(state, request, now_ms)
    group = find_or_create_group(state, body)
    refuse_if_full(group, body.member_id, state.settings.group_consumer_max_size)
    turn = Turn(state, request, group, now_ms)
    find_member(turn)
    if may_wait(turn):
        return _join_and_wait(turn)
    settle(turn)
    return _answer(turn)


def settle(turn: Turn) -> None:
    """Decide what the request makes of the member and of the group. Raises GroupError: 128, -1, 110."""
    _update_member(turn)
    _update_epoch(turn)
    update_target(turn)
    _reconcile(turn)
    consumer_history.tell(turn)


def _steady(state: ShardState, group: ConsumerGroup, request: Request, now_ms: int) -> Result | None:
    """The answer if nothing has changed on either side, else None. Writes nothing. The hottest path of a
    consumer group: tuples are taken apart at once, which is cheaper than field by field."""
    token, _, _, client_id, client_host, body = request[:6]
    group_id, member_id, epoch, instance_id = body[:4]
    member = group.members.get(member_id)
    if member is None or body[4:] != _NOTHING_NEW:
        return None
    current, metadata = member.current, member.metadata
    if current is None or metadata is None:
        return None
    if not (current[0] == epoch == group.group_epoch == group.assignment_epoch and current[2] == STABLE):
        return None
    if (
        client_host != metadata.client_host
        or client_id != metadata.client_id
        or epoch <= 0
        or not is_as_checked(state, group, metadata, instance_id)
    ):
        return None
    session_timeout_ms, interval_ms, _ = group.settings
    if interval_ms < state.interval_floor_ms:
        interval_ms = group_settings.told_interval_ms(state, group.settings)
    state.timers.schedule(member.session_key, now_ms + session_timeout_ms)
    # Made anew: that takes 0.1 us, and the kept ones of all members would weigh 100 bytes each.
    answer: ConsumerGroupHeartbeatResponse = _new_tuple(
        ConsumerGroupHeartbeatResponse, (NO_ERROR, None, member_id, epoch, interval_ms, None)
    )
    return answered(token, answer, group_id)


def _update_member(turn: Turn) -> None:
    """M5, first half: the member's record, and the regexes' (M24)."""
    body, old = turn.body, turn.metadata
    names = body.subscribed_topic_names
    if body.subscribed_topic_regex:
        regex.compiled(body.subscribed_topic_regex)
    turn.metadata = ConsumerMemberValue(
        old.instance_id if body.instance_id is None else body.instance_id,
        old.rack_id if body.rack_id is None else body.rack_id,
        turn.request.client_id,
        turn.request.client_host,
        old.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        old.subscribed_topic_regex if body.subscribed_topic_regex is None else body.subscribed_topic_regex,
        old.rebalance_timeout_ms if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        old.server_assignor if body.server_assignor is None else body.server_assignor,
        turn.classic,
    )
    if turn.stored is None or turn.metadata != turn.stored.metadata:
        key = ConsumerMemberKey(CONSUMER_MEMBER_METADATA, turn.group.group_id, turn.member_id)
        turn.records.append(Record(key, turn.metadata))
    update_regexes(turn)
    turn.topic_ids = _topic_ids(turn)


def _topic_ids(turn: Turn) -> frozenset[bytes]:
    key = turn.metadata.subscribed_topic_names, turn.metadata.subscribed_topic_regex
    shared = turn.group.subscriptions.get(key)
    if shared is not None:
        return subscribed_topic_ids(shared, turn.regex_topics, turn.state.image)
    return topic_ids((*key[0], *turn.regex_topics.get(key[1], ())), turn.state.image)


def _update_epoch(turn: Turn) -> None:
    """M5, second half, and M6: who joins with a subscription, changes it, or finds its topics changed,
    raises the group epoch. An assignor's name alone does not (section 11), nor does a regex that is not
    resolved yet, whatever the one before it matched: its resolution will, once (M24)."""
    group, image = turn.group, turn.state.image
    key = turn.metadata.subscribed_topic_names, turn.metadata.subscribed_topic_regex
    changed = turn.names_changed or turn.regex_resolved
    topics_may_differ = group.checked_image_version != image.version or (
        changed and (key not in group.subscriptions or turn.previous is not NEW_MEMBER)
    )
    cause = None
    if changed:
        cause = CAUSE_MEMBER_JOINED if turn.previous is NEW_MEMBER else CAUSE_SUBSCRIPTION_CHANGED
    if topics_may_differ:
        computed = metadata_hash(_subscribed_names(turn), image)
        if computed != turn.metadata_hash:
            turn.metadata_hash = computed
            cause = cause or CAUSE_METADATA_CHANGED
    turn.cause = cause
    turn.group_epoch = (group.group_epoch or FIRST_EPOCH) + (cause is not None)
    value = ConsumerGroupValue(turn.group_epoch, turn.metadata_hash)
    if value != group.metadata:
        turn.records.append(Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id), value))


def _subscribed_names(turn: Turn) -> set[str]:
    others = other_subscriptions(turn)
    if len(others) == len(turn.group.subscriptions):
        names = subscribed_names(turn.group, turn.regex_topics)
    else:
        names = {name for subscription in others for name in subscription.key[0]}
        names.update(*turn.regex_topics.values())
    names.update(turn.metadata.subscribed_topic_names)
    return names


def _reconcile(turn: Turn) -> None:
    goal = Goal(turn.assignment_epoch, turn.target or EMPTY, turn.topic_ids, turn.subscription_changed)
    before = None if turn.stored is None else turn.stored.current
    turn.current = reconcile(turn.current, goal, turn.body.topic_partitions, turn.group)
    if turn.current == before:
        return
    group_id = turn.group.group_id
    key = ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group_id, turn.member_id)
    turn.records.append(Record(key, turn.current))
    timer = (REBALANCE_TIMER, group_id, turn.member_id)
    # A member that speaks the classic protocol has join and sync timers instead (G3).
    if turn.current.state == UNREVOKED_PARTITIONS and turn.classic is None:
        turn.state.timers.schedule(timer, turn.now_ms + turn.metadata.rebalance_timeout_ms)
        turn.group.start_revoking(turn.member_id, turn.current.member_epoch)
    else:
        turn.state.timers.cancel(timer)
        turn.group.stop_revoking(turn.member_id)


def _join_and_wait(turn: Turn) -> Result:
    """The member is in the group; what it is given it hears when the group has formed."""
    _update_member(turn)
    _update_epoch(turn)
    settings = group_settings.note_checked(turn.state, turn.group)
    session_key = (SESSION_TIMER, turn.group.group_id, turn.member_id)
    turn.state.timers.schedule(session_key, turn.now_ms + settings.session_timeout_ms)
    wait(turn)
    consumer_history.tell(turn)
    return Result(turn.records, (), turn.events)


def _formed(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Answer some of those who waited."""
    joins = next_joins(state, str(key[1]), now_ms)
    return at_once(_answer_join(state, request, now_ms) for request in joins)


def _answer_join(state: ShardState, request: Request, now_ms: int) -> Result:
    body: ConsumerGroupHeartbeatRequest = request.body
    try:
        group = find_group(state, body.group_id)
        member = group.member(body.member_id)
        if member is None:  # it has left meanwhile
            raise unknown_member(body.group_id, body.member_id)
        turn = Turn(state, request, group, now_ms)
        speak_as(turn, member)
        settle(turn)
    except GroupError as error:
        refused = refusal(request, error.error_code, error.message)
        return Result(replies=(Reply(request.token, refused, body.group_id),))
    return _answer(turn)


def _answer(turn: Turn) -> Result:
    state, group, body = turn.state, turn.group, turn.body
    assigned = turn.current.assigned
    before = None if turn.stored is None else turn.stored.current
    # M18. A first answer of a member id always names the assignment: its epoch was 0.
    full = (
        body.rebalance_timeout_ms != -1
        and (body.subscribed_topic_names is not None or body.subscribed_topic_regex is not None)
        and body.topic_partitions is not None
    )
    told = body.member_epoch == 0 or full or before is None or before.assigned != assigned
    settings = group_settings.note_checked(state, group)
    interval_ms = group_settings.told_interval_ms(state, settings)
    if _waits(turn):
        interval_ms = min(interval_ms, WAITING_HEARTBEAT_INTERVAL_MS)
    answer = ConsumerGroupHeartbeatResponse(
        NO_ERROR, None, turn.member_id, turn.current.member_epoch, interval_ms, assigned if told else None
    )
    conversion, sent_back = take_over(state, group, turn.now_ms)
    if turn.replaced_id is not None:
        drop_timers(state, group, turn.replaced_id)
    session_key = (SESSION_TIMER, group.group_id, turn.member_id)
    state.timers.schedule(session_key, turn.now_ms + settings.session_timeout_ms)
    reply = Reply(turn.request.token, answer, group.group_id)
    return Result([*conversion, *turn.records], (*sent_back, reply), turn.events)


def _waits(turn: Turn) -> bool:
    """Whether the member waits for partitions that others still hold, for what its regex matches, or, as a
    newcomer, for the next target (design: adaptive interval)."""
    if turn.current.state == UNRELEASED_PARTITIONS:
        return True
    pattern = turn.metadata.subscribed_topic_regex
    if pattern and pattern not in turn.regex_topics:
        return True
    newcomer = not turn.current.assigned and bool(turn.topic_ids)
    return newcomer and turn.assignment_epoch < turn.group_epoch


def _on_elected(state: ShardState, now_ms: int) -> Result:
    """M26: session timers for all, rebalance timers for those that have to revoke. Topic metadata is
    checked at each group's first heartbeat (A21)."""
    return begun(_armed(state, now_ms), group_members(state))


def _armed(state: ShardState, now_ms: int) -> Iterator[Result]:
    members = (
        (group, member_id, member)
        for group_id, group in state.consumer.items()
        if is_consumer_group(state, group_id)
        for member_id, member in group.members.items()
    )
    for some in sliced(members):
        for group, member_id, member in some:
            _arm(state, group, member_id, member, now_ms)
        yield NOTHING
    under_way = (group for group in state.consumer.values() if group.state_name not in _AT_REST)
    for groups in sliced(under_way):
        yield Result(events=list(chain(*(found_under_way(state, group, now_ms) for group in groups))))


def _arm(
    state: ShardState, group: ConsumerGroup, member_id: str, member: ConsumerMember, now_ms: int
) -> None:
    if member.metadata is None:
        return
    classic = member.metadata.classic
    timeout_ms = classic[0] if classic else group_settings.of(state, group.group_id).session_timeout_ms
    state.timers.schedule(member.session_key, now_ms + timeout_ms)
    current = member.current
    if classic is None and current is not None and current.state == UNREVOKED_PARTITIONS:
        group.start_revoking(member_id, current.member_epoch)
        state.timers.schedule(member.rebalance_key, now_ms + member.metadata.rebalance_timeout_ms)


AREA = Area(
    handlers={CONSUMER_GROUP_HEARTBEAT: heartbeat},
    appliers=consumer_apply.APPLIERS,
    timers={
        SESSION_TIMER: session_over,
        REBALANCE_TIMER: rebalance_over,
        REGEX_TIMER: resolve,
        FORMING_TIMER: _formed,
    },
    records=consumer_apply.records,
    on_elected=_on_elected,
)
