"""ConsumerGroupHeartbeat (KIP-848).

One heartbeat is validated (M1), finds its group and member and is fenced (M2 to M4), updates the member
(M5), raises the group epoch if that matters (M6), perhaps computes a target (M8) and reconciles the member
with it (M11 to M13). A steady heartbeat, which is nearly all of them, does none of this.
"""

from __future__ import annotations

from actors.catalog import group_refusals
from actors.coordinator.consumer import asking_members as asking
from actors.coordinator.consumer import history as consumer_history
from actors.coordinator.consumer.decision import NEW_MEMBER, Decision
from actors.coordinator.consumer.forming import may_wait, next_joins, wait
from actors.coordinator.consumer.leave import drop_timers, leave
from actors.coordinator.consumer.members import (
    find_group,
    find_member,
    find_or_create_group,
    refuse_if_full,
    speak_as,
    unknown_member,
)
from actors.coordinator.consumer.migration.upgrade import take_over
from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.group import FIRST_EPOCH, ConsumerGroup
from actors.coordinator.consumer.model.member import (
    REBALANCE_TIMER,
    SESSION_TIMER,
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
)
from actors.coordinator.consumer.model.metadata import metadata_hash, subscribed_topic_ids, topic_ids
from actors.coordinator.consumer.model.reconcile import Goal, reconcile
from actors.coordinator.consumer.model.state import ConsumerState
from actors.coordinator.consumer.regexes import (
    other_subscriptions,
    subscribed_names,
    update_regexes,
)
from actors.coordinator.consumer.request import validate
from actors.coordinator.consumer.target import changes_assignor, update_target
from actors.coordinator.ground import regex
from actors.coordinator.ground.partitions import EMPTY
from actors.coordinator.ground.refusals import coordinator_error
from actors.coordinator.ground.slices import at_once
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import (
    CAUSE_ASSIGNOR_CHANGED,
    CAUSE_CLIENT_ASSIGNOR,
    CAUSE_MEMBER_JOINED,
    CAUSE_METADATA_CHANGED,
    CAUSE_SUBSCRIPTION_CHANGED,
)
from actors.coordinator.told.events import CONSUMER
from actors.ground.contract import Record, Reply, Request, Result, answered, new_tuple
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
)
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_NAMED = slice(0, ConsumerGroupHeartbeatRequest._fields.index("instance_id") + 1)
"""The fields of a heartbeat that say whose it is: group id, member id, epoch, instance id."""
_TOLD = slice(_NAMED.stop, None)
"""The fields that a member sends when they have changed."""
_NOTHING_NEW = ConsumerGroupHeartbeatRequest("", "", 0)[_TOLD]
"""The fields of a heartbeat that repeats nothing (A5)."""
_TOLD_BUT_ASSIGNORS = slice(_NAMED.stop, -1)
"""The same without `client_assignors`, which is the last field."""
_NOTHING_BUT_ASSIGNORS = ConsumerGroupHeartbeatRequest("", "", 0)[_TOLD_BUT_ASSIGNORS]
WAITING_HEARTBEAT_INTERVAL_MS = 1_000
"""The interval that is told to a member that waits for partitions, to that one alone. Never less: librdkafka
takes the interval as the time-out of its next heartbeat."""


def heartbeat(state: ShardState, request: Request, now_ms: int) -> Result:
    """Answer a ConsumerGroupHeartbeat. Raises GroupError with the codes of A8."""
    body: ConsumerGroupHeartbeatRequest = request.body
    kept: ConsumerState = state.of[CONSUMER]
    group = kept.groups.get(body.group_id)
    if group is not None:
        answer = steady(state, group, request, now_ms)
        if answer is not None:
            return answer
    validate(body, request.api_version, state.settings)
    if body.member_epoch < 0:
        return leave(state, request, now_ms)
    group = find_or_create_group(state, body)
    refuse_if_full(group, body.member_id, body.instance_id, state.settings.group_consumer_max_size)
    decision = Decision(state, request, group, now_ms)
    find_member(decision)
    if may_wait(decision):
        return _join_and_wait(decision)
    decide(decision)
    return _answer(decision)


def decide(decision: Decision) -> None:
    """Decide what the request makes of the member and of the group. Raises GroupError: 128, -1, 110."""
    _update_member(decision)
    _update_epoch(decision)
    update_target(decision)
    _reconcile(decision)
    consumer_history.tell(decision)


def is_as_checked(
    state: ShardState, group: ConsumerGroup, member: ConsumerMember, instance_id: str | None
) -> bool:
    """Whether the group has been looked at with the present image, and the member is one of KIP-848 that
    gives its own instance id or none. What answers a steady heartbeat and what holds its answer both ask."""
    terms = member.terms
    return (
        group.checked_image_version == state.image.version
        and terms is not None
        and terms.classic is None
        and (instance_id is None or instance_id == member.instance_id)
    )


def steady(state: ShardState, group: ConsumerGroup, request: Request, now_ms: int) -> Result | None:
    """The answer if nothing has changed on either side, else None. Writes nothing. The hottest path of a
    consumer group: tuples are taken apart at once, which is cheaper than field by field."""
    token, _, _, client_id, client_host, body = request[:6]
    group_id, member_id, epoch, instance_id = body[_NAMED]
    member = group.members.get(member_id)
    if member is None or (body[_TOLD] != _NOTHING_NEW and not _repeats_assignors(group, body)):
        return None
    standing = member.standing
    if standing is None:
        return None
    if not (standing[0] == epoch == group.group_epoch == group.assignment_epoch and standing[2] == STABLE):
        return None
    if (
        client_host != member.client_host
        or client_id != member.client_id
        or epoch <= 0
        or not is_as_checked(state, group, member, instance_id)
    ):
        return None
    session_timeout_ms, interval_ms, _ = group.settings
    if interval_ms < state.of[CONSUMER].interval_floor_ms:
        interval_ms = group_settings.told_interval_ms(state, group.settings)
    state.timers.schedule((SESSION_TIMER, group_id, member_id), now_ms + session_timeout_ms)
    # Made anew: that takes 0.1 us, and the kept ones of all members would weigh 100 bytes each.
    answer: ConsumerGroupHeartbeatResponse = new_tuple(
        ConsumerGroupHeartbeatResponse, (NO_ERROR, None, member_id, epoch, interval_ms, None, None)
    )
    return answered(token, answer, group_id)


def _repeats_assignors(group: ConsumerGroup, body: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the heartbeat says nothing but the assignors that its member brought before, as they were."""
    if not body.client_assignors or body[_TOLD_BUT_ASSIGNORS] != _NOTHING_BUT_ASSIGNORS:
        return False
    return body.client_assignors == group.client_assignors.get(body.member_id)


def _update_member(decision: Decision) -> None:
    """M5, first half: the member's record, and the regexes' (M24)."""
    body, old = decision.body, decision.metadata
    names = body.subscribed_topic_names
    if body.subscribed_topic_regex:
        regex.compiled(body.subscribed_topic_regex)
    pattern, timeout_ms, assignor = (
        body.subscribed_topic_regex,
        body.rebalance_timeout_ms,
        body.server_assignor,
    )
    decision.metadata = ConsumerMemberValue(
        instance_id=old.instance_id if body.instance_id is None else body.instance_id,
        rack_id=old.rack_id if body.rack_id is None else body.rack_id,
        client_id=decision.request.client_id,
        client_host=decision.request.client_host,
        subscribed_topic_names=old.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=old.subscribed_topic_regex if pattern is None else pattern,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=old.server_assignor if assignor is None else assignor,
        classic=decision.classic,
    )
    if decision.stored is None or decision.metadata != decision.stored.metadata:
        key = ConsumerMemberKey(CONSUMER_MEMBER_METADATA, decision.group.group_id, decision.member_id)
        decision.records.append(Record(key, decision.metadata))
    if asking.concerns(decision):
        asking.update_assignors(decision)
    update_regexes(decision)
    decision.topic_ids = _topic_ids(decision)


def _topic_ids(decision: Decision) -> frozenset[bytes]:
    key = decision.metadata.subscribed_topic_names, decision.metadata.subscribed_topic_regex
    known = decision.group.subscription(key)
    if known is not None:
        return subscribed_topic_ids(known, decision.regex_topics, decision.state.image)
    return topic_ids((*key[0], *decision.regex_topics.get(key[1], ())), decision.state.image)


def _update_epoch(decision: Decision) -> None:
    """M5, second half, and M6: who joins with a subscription, changes it, finds its topics changed, or has
    the group take another assignor, raises the group epoch. A regex that is not resolved yet does not,
    whatever the one before it matched: its resolution will, once (M24)."""
    group, image = decision.group, decision.state.image
    key = decision.metadata.subscribed_topic_names, decision.metadata.subscribed_topic_regex
    changed = decision.names_changed or decision.regex_resolved
    topics_may_differ = group.checked_image_version != image.version or (
        changed and (group.subscription(key) is None or decision.previous is not NEW_MEMBER)
    )
    cause = None
    if changed:
        cause = CAUSE_MEMBER_JOINED if decision.previous is NEW_MEMBER else CAUSE_SUBSCRIPTION_CHANGED
    elif changes_assignor(decision):
        cause = CAUSE_ASSIGNOR_CHANGED
    elif asking.asks_for_assignment(decision):
        cause = CAUSE_CLIENT_ASSIGNOR
    if topics_may_differ:
        computed = metadata_hash(_subscribed_names(decision), image)
        if computed != decision.metadata_hash:
            decision.metadata_hash = computed
            cause = cause or CAUSE_METADATA_CHANGED
    decision.cause = cause
    decision.group_epoch = (group.group_epoch or FIRST_EPOCH) + (cause is not None)
    value = ConsumerGroupValue(decision.group_epoch, decision.metadata_hash)
    if value != group.metadata:
        decision.records.append(Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id), value))


def _subscribed_names(decision: Decision) -> set[str]:
    others = other_subscriptions(decision)
    if len(others) == len(decision.group.subscriptions):
        names = subscribed_names(decision.group, decision.regex_topics)
    else:
        names = {name for subscription in others for name in subscription.key[0]}
        names.update(*decision.regex_topics.values())
    names.update(decision.metadata.subscribed_topic_names)
    return names


def _reconcile(decision: Decision) -> None:
    goal = Goal(
        decision.assignment_epoch, decision.target or EMPTY, decision.topic_ids, decision.subscription_changed
    )
    before = None if decision.stored is None else decision.stored.current
    decision.current = reconcile(decision.current, goal, decision.body.topic_partitions, decision.group)
    if decision.current == before:
        return
    group_id = decision.group.group_id
    key = ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group_id, decision.member_id)
    decision.records.append(Record(key, decision.current))
    timer = (REBALANCE_TIMER, group_id, decision.member_id)
    # A member that speaks the classic protocol has join and sync timers instead (G3).
    if decision.current.state == UNREVOKED_PARTITIONS and decision.classic is None:
        decision.state.timers.schedule(timer, decision.now_ms + decision.metadata.rebalance_timeout_ms)
        decision.group.start_revoking(decision.member_id, decision.current.member_epoch)
    else:
        decision.state.timers.cancel(timer)
        decision.group.stop_revoking(decision.member_id)


def _join_and_wait(decision: Decision) -> Result:
    """Take the member into the group; what it is given it hears when the group has formed."""
    _update_member(decision)
    _update_epoch(decision)
    settings = group_settings.note_checked(decision.state, decision.group)
    session_key = (SESSION_TIMER, decision.group.group_id, decision.member_id)
    decision.state.timers.schedule(session_key, decision.now_ms + settings.session_timeout_ms)
    wait(decision)
    consumer_history.tell(decision)
    return Result(decision.records, (), decision.events)


def on_formed(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Answer some of those who waited for the group to form."""
    joins = next_joins(state, str(key[1]), now_ms)
    return at_once(_answer_join(state, request, now_ms) for request in joins)


def _answer_join(state: ShardState, request: Request, now_ms: int) -> Result:
    body: ConsumerGroupHeartbeatRequest = request.body
    try:
        group = find_group(state, body.group_id)
        member = group.member(body.member_id)
        if member is None:  # it has left meanwhile
            raise unknown_member(body.group_id, body.member_id)
        decision = Decision(state, request, group, now_ms)
        speak_as(decision, member)
        decide(decision)
    except GroupError as error:
        refused = group_refusals.consumer_heartbeat(
            request, coordinator_error(error.error_code), error.message
        )
        return Result(replies=(Reply(request.token, refused, body.group_id),))
    return _answer(decision)


def _answer(decision: Decision) -> Result:
    state, group, body = decision.state, decision.group, decision.body
    assigned = decision.current.assigned
    before = None if decision.stored is None else decision.stored.current
    # M18. A first answer of a member id always names the assignment: its epoch was 0.
    full = (
        body.rebalance_timeout_ms != -1
        and (body.subscribed_topic_names is not None or body.subscribed_topic_regex is not None)
        and body.topic_partitions is not None
    )
    told = body.member_epoch == 0 or full or before is None or before.assigned != assigned
    client = None
    if decision.client_assignors:
        told = told or decision.current.member_epoch != body.member_epoch
        client = asking.told(decision, told)
    settings = group_settings.note_checked(state, group)
    interval_ms = group_settings.told_interval_ms(state, settings)
    if _waits(decision):
        interval_ms = min(interval_ms, WAITING_HEARTBEAT_INTERVAL_MS)
    answer = ConsumerGroupHeartbeatResponse(
        NO_ERROR,
        None,
        decision.member_id,
        decision.current.member_epoch,
        interval_ms,
        assigned if told else None,
        client,
    )
    conversion, sent_back = take_over(state, group, decision.now_ms)
    if decision.replaced_id is not None:
        drop_timers(state, group, decision.replaced_id)
    session_key = (SESSION_TIMER, group.group_id, decision.member_id)
    state.timers.schedule(session_key, decision.now_ms + settings.session_timeout_ms)
    reply = Reply(decision.request.token, answer, group.group_id)
    return Result([*conversion, *decision.records], (*sent_back, reply), decision.events)


def _waits(decision: Decision) -> bool:
    """Whether the member waits for partitions that others still hold, for what its regex matches, or, as a
    newcomer, for the next target (design: adaptive interval)."""
    if decision.current.state == UNRELEASED_PARTITIONS:
        return True
    pattern = decision.metadata.subscribed_topic_regex
    if pattern and pattern not in decision.regex_topics:
        return True
    newcomer = not decision.current.assigned and bool(decision.topic_ids)
    return newcomer and decision.assignment_epoch < decision.group_epoch
