"""Consumer groups (KIP-848): ConsumerGroupHeartbeat, the group's timers, and the area's face to the rest.

One heartbeat is validated (M1), finds its group and member and is fenced (M2 to M4), updates the member
(M5), raises the group epoch if that matters (M6), perhaps computes a target (M8) and reconciles the member
with it (M11 to M13). A steady heartbeat, which is nearly all of them, does none of this. The commit and
fetch checks and the describe views are in `consumer_views`.
"""

from __future__ import annotations

from actors.contract import NOTHING, Record, Reply, Request, Result
from actors.coordinator import consumer_apply, regex
from actors.coordinator.area import Area
from actors.coordinator.consumer_events import (
    CAUSE_MEMBER_JOINED,
    CAUSE_METADATA_CHANGED,
    CAUSE_SUBSCRIPTION_CHANGED,
    EpochBumped,
)
from actors.coordinator.consumer_leave import drop_timers, leave, rebalance_over, session_over
from actors.coordinator.consumer_members import find_member, find_or_create_group, refuse_if_full
from actors.coordinator.consumer_metadata import metadata_hash, subscribed_topic_ids, topic_ids
from actors.coordinator.consumer_request import validate
from actors.coordinator.consumer_state import (
    REBALANCE_TIMER,
    SESSION_TIMER,
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ConsumerGroup,
    Subscription,
)
from actors.coordinator.consumer_turn import NEW_MEMBER, Turn
from actors.coordinator.consumer_views import (
    delete_records,
    describe,
    forget,
    is_empty,
    listed,
    subscribed_topics,
    validate_commit,
    validate_fetch,
)
from actors.coordinator.partitions import EMPTY
from actors.coordinator.reconcile import Goal, reconcile
from actors.coordinator.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    RegularExpressionKey,
    RegularExpressionValue,
)
from actors.coordinator.state import ShardState
from actors.coordinator.target import update_target
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

__all__ = [
    "AREA",
    "delete_records",
    "describe",
    "forget",
    "is_empty",
    "listed",
    "subscribed_topics",
    "validate_commit",
    "validate_fetch",
]

_NOTHING_NEW = ConsumerGroupHeartbeatRequest("", "", 0)[4:]
"""The fields after the instance id of a heartbeat that repeats nothing (A5)."""
WAITING_HEARTBEAT_INTERVAL_MS = 1_000
"""Told to a member that waits for partitions, to that one alone. Never less: librdkafka takes the interval
as the time-out of its next heartbeat."""
FIRST_EPOCH = 1
"""Of a group whose first member brings no subscription (section 11, M2 and M5)."""


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
    _update_member(turn)
    _update_epoch(turn)
    update_target(turn)
    _reconcile(turn)
    return _answer(turn)


def _steady(state: ShardState, group: ConsumerGroup, request: Request, now_ms: int) -> Result | None:
    """The answer if nothing has changed on either side, else None. Writes nothing. The hottest path of a
    consumer group: tuples are taken apart at once, which is cheaper than field by field."""
    token, _, _, client_id, client_host, body = request
    group_id, member_id, epoch, instance_id = body[:4]
    member = group.members.get(member_id)
    if member is None or body[4:] != _NOTHING_NEW:
        return None
    current, metadata = member.current, member.metadata
    if current is None or metadata is None:
        return None
    if not (current[0] == epoch == group.group_epoch == group.assignment_epoch and current[2] == STABLE):
        return None
    known_instance_id, _, known_client_id, known_client_host = metadata[:4]
    if (
        client_host != known_client_host
        or client_id != known_client_id
        or (instance_id is not None and instance_id != known_instance_id)
        or group.checked_image_version != state.image.version
        or epoch <= 0
    ):
        return None
    settings = state.settings
    state.timers.schedule(member.session_key, now_ms + settings.group_consumer_session_timeout_ms)
    interval_ms = settings.group_consumer_heartbeat_interval_ms
    answer = member.steady_answer
    if answer is None or answer.member_epoch != epoch or answer.heartbeat_interval_ms != interval_ms:
        answer = ConsumerGroupHeartbeatResponse(NO_ERROR, None, member_id, epoch, interval_ms)
        member.steady_answer = answer
    return Result((), (Reply(token, answer, group_id),))


def _update_member(turn: Turn) -> None:
    """M5, first half: the member's record, and the regexes' (M24)."""
    body, old = turn.body, turn.metadata
    names = body.subscribed_topic_names
    if body.subscribed_topic_regex is not None:
        regex.check(body.subscribed_topic_regex)
    turn.metadata = ConsumerMemberValue(
        old.instance_id if body.instance_id is None else body.instance_id,
        old.rack_id if body.rack_id is None else body.rack_id,
        turn.request.client_id,
        turn.request.client_host,
        old.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        old.subscribed_topic_regex if body.subscribed_topic_regex is None else body.subscribed_topic_regex,
        old.rebalance_timeout_ms if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        old.server_assignor if body.server_assignor is None else body.server_assignor,
    )
    if turn.stored is None or turn.metadata != turn.stored.metadata:
        key = ConsumerMemberKey(CONSUMER_MEMBER_METADATA, turn.group.group_id, turn.member_id)
        turn.records.append(Record(key, turn.metadata))
    _update_regexes(turn)
    turn.topic_ids = _topic_ids(turn)


def _update_regexes(turn: Turn) -> None:
    """Resolve what is new, and everything once the image is new; drop what nobody has any more."""
    group, image = turn.group, turn.state.image
    wanted = {s.key[1] for s in _other_subscriptions(turn)} | {turn.metadata.subscribed_topic_regex}
    wanted.discard(regex.NONE)
    if not wanted and not group.regexes:
        return
    fresh = group.checked_image_version == image.version
    topics: dict[str, tuple[str, ...]] = {}
    for pattern in sorted(wanted):
        known = group.regexes.get(pattern)
        if known is not None and (fresh or known.image_version == image.version):
            topics[pattern] = known.topics
            continue
        topics[pattern] = regex.matching(pattern, image.topics)
        if known is None or known.topics != topics[pattern]:
            value = RegularExpressionValue(topics[pattern], image.version, turn.now_ms)
            turn.records.append(_regex_record(group, pattern, value))
    for pattern in sorted(group.regexes.keys() - wanted):
        turn.records.append(_regex_record(group, pattern, None))
    turn.regex_topics = topics


def _regex_record(group: ConsumerGroup, pattern: str, value: RegularExpressionValue | None) -> Record:
    return Record(RegularExpressionKey(REGULAR_EXPRESSION, group.group_id, pattern), value)


def _other_subscriptions(turn: Turn) -> list[Subscription]:
    """The group's subscriptions without those that only this member (or the one it replaces) had."""
    old = turn.previous.subscribed_topic_names, turn.previous.subscribed_topic_regex
    known = turn.previous is not NEW_MEMBER
    return [
        s for key, s in turn.group.subscriptions.items() if not (known and key == old and s.member_count == 1)
    ]


def _topic_ids(turn: Turn) -> frozenset[bytes]:
    key = turn.metadata.subscribed_topic_names, turn.metadata.subscribed_topic_regex
    shared = turn.group.subscriptions.get(key)
    if shared is not None:
        return subscribed_topic_ids(shared, turn.regex_topics, turn.state.image)
    return topic_ids((*key[0], *turn.regex_topics.get(key[1], ())), turn.state.image)


def _update_epoch(turn: Turn) -> None:
    """M5, second half, and M6: who joins with a subscription, changes it, or finds its topics changed,
    raises the group epoch. An assignor's name alone does not (section 11)."""
    group, image = turn.group, turn.state.image
    key = turn.metadata.subscribed_topic_names, turn.metadata.subscribed_topic_regex
    topics_may_differ = (
        group.checked_image_version != image.version
        or key not in group.subscriptions
        or (turn.subscription_changed and turn.previous is not NEW_MEMBER)
    )
    cause = None
    if turn.subscription_changed:
        cause = CAUSE_MEMBER_JOINED if turn.previous is NEW_MEMBER else CAUSE_SUBSCRIPTION_CHANGED
    if topics_may_differ:
        computed = metadata_hash(_subscribed_names(turn), image)
        if computed != turn.metadata_hash:
            turn.metadata_hash = computed
            cause = cause or CAUSE_METADATA_CHANGED
    turn.group_epoch = group.group_epoch or FIRST_EPOCH
    if cause is not None:
        turn.group_epoch += 1
        turn.events.append(EpochBumped(group.group_id, turn.group_epoch, cause, turn.member_id, turn.now_ms))
    value = ConsumerGroupValue(turn.group_epoch, turn.metadata_hash)
    if value != group.metadata:
        turn.records.append(Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id), value))


def _subscribed_names(turn: Turn) -> set[str]:
    others = _other_subscriptions(turn)
    if len(others) == len(turn.group.subscriptions):
        names = set(turn.group.topic_counts)
    else:
        names = {name for subscription in others for name in subscription.key[0]}
    names.update(turn.metadata.subscribed_topic_names)
    for topics in turn.regex_topics.values():
        names.update(topics)
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
    if turn.current.state == UNREVOKED_PARTITIONS:
        turn.state.timers.schedule(timer, turn.now_ms + turn.metadata.rebalance_timeout_ms)
        turn.group.rebalance_epochs[turn.member_id] = turn.current.member_epoch
    else:
        turn.state.timers.cancel(timer)
        turn.group.rebalance_epochs.pop(turn.member_id, None)


def _answer(turn: Turn) -> Result:
    state, group, body, settings = turn.state, turn.group, turn.body, turn.state.settings
    assigned = turn.current.assigned
    before = None if turn.stored is None else turn.stored.current
    # M18. A first answer of a member id always names the assignment: its epoch was 0.
    full = (
        body.rebalance_timeout_ms != -1
        and (body.subscribed_topic_names is not None or body.subscribed_topic_regex is not None)
        and body.topic_partitions is not None
    )
    told = body.member_epoch == 0 or full or before is None or before.assigned != assigned
    interval_ms = settings.group_consumer_heartbeat_interval_ms
    if _waits(turn):
        interval_ms = min(interval_ms, WAITING_HEARTBEAT_INTERVAL_MS)
    answer = ConsumerGroupHeartbeatResponse(
        NO_ERROR, None, turn.member_id, turn.current.member_epoch, interval_ms, assigned if told else None
    )
    _convert_classic(state, group, turn.records)
    if turn.replaced_id is not None:
        drop_timers(state, group, turn.replaced_id)
    group.checked_image_version = state.image.version
    session_key = (SESSION_TIMER, group.group_id, turn.member_id)
    state.timers.schedule(session_key, turn.now_ms + settings.group_consumer_session_timeout_ms)
    reply = Reply(turn.request.token, answer, group.group_id)
    return Result(turn.records, (reply,), turn.events)


def _waits(turn: Turn) -> bool:
    """Whether the member waits for partitions that others still hold, or, as a newcomer, for the next
    target (design: adaptive interval)."""
    if turn.current.state == UNRELEASED_PARTITIONS:
        return True
    newcomer = not turn.current.assigned and bool(turn.topic_ids)
    return newcomer and turn.assignment_epoch < turn.group_epoch


def _convert_classic(state: ShardState, group: ConsumerGroup, records: list[Record]) -> None:
    """An empty classic group of this id gives way (C28, M27); it was found empty before."""
    if group.group_id not in state.classic:
        return
    # Both areas convert the other's empty groups; importing late breaks the circle.
    from actors.coordinator import classic

    records[:0] = classic.delete_records(state, group.group_id)
    classic.forget(state, group.group_id)


def _on_elected(state: ShardState, now_ms: int) -> Result:
    """M26: session timers for all, rebalance timers for those that have to revoke. Topic metadata is
    checked at each group's first heartbeat (A21)."""
    session_ms = state.settings.group_consumer_session_timeout_ms
    for group in state.consumer.values():
        for member_id, member in group.members.items():
            if member.metadata is None:
                continue
            state.timers.schedule(member.session_key, now_ms + session_ms)
            if member.current is not None and member.current.state == UNREVOKED_PARTITIONS:
                group.rebalance_epochs[member_id] = member.current.member_epoch
                state.timers.schedule(member.rebalance_key, now_ms + member.metadata.rebalance_timeout_ms)
    return NOTHING


AREA = Area(
    handlers={CONSUMER_GROUP_HEARTBEAT: heartbeat},
    appliers=consumer_apply.APPLIERS,
    timers={SESSION_TIMER: session_over, REBALANCE_TIMER: rebalance_over},
    records=consumer_apply.records,
    on_elected=_on_elected,
)
