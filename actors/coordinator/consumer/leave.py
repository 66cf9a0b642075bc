"""How members go: leave (M19), static leave (M20), session and rebalance timeouts (M16, M17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.rebalance import prepare_rebalance
from actors.coordinator.consumer import history as consumer_history
from actors.coordinator.consumer.members import find_group, find_static, member_tombstones, unknown_member
from actors.coordinator.consumer.migration import timers as migration_timers
from actors.coordinator.consumer.migration.downgrade import classic_twin, is_due, take_over
from actors.coordinator.consumer.model import assignment_epochs
from actors.coordinator.consumer.model.group import LEAVE_STATIC_EPOCH, NEVER_MS, NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import (
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    Subscription,
    rebalance_key,
    session_key,
)
from actors.coordinator.consumer.model.metadata import metadata_hash, regex_topics_of
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import (
    CAUSE_MEMBER_LEFT,
    CAUSE_REBALANCE_TIMEOUT,
    CAUSE_SESSION_TIMEOUT,
)
from actors.ground.contract import NOTHING, Record, Reply, Request, Result
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    RegularExpressionKey,
    TargetMetadataValue,
)
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(state: ShardState, request: Request, now_ms: int) -> Result:
    """Answer a heartbeat with member epoch -1 or -2. Raises GroupError: 69 no such group, 25 no such member,
    82 not its instance."""
    body: ConsumerGroupHeartbeatRequest = request.body
    group = find_group(state, body.group_id)
    if body.instance_id is None:
        found = group.member(body.member_id)
        if found is None:
            raise unknown_member(body.group_id, body.member_id)
        member = found
    else:
        member = find_static(group, body.instance_id, body.member_id)
    if body.member_epoch == LEAVE_STATIC_EPOCH:
        result = _leave_for_a_while(state, group, body.member_id, member)
    else:
        result = remove_members(state, group, (body.member_id,), CAUSE_MEMBER_LEFT, now_ms)
    answer = ConsumerGroupHeartbeatResponse(
        NO_ERROR, member_id=body.member_id, member_epoch=body.member_epoch
    )
    return result._replace(replies=(Reply(request.token, answer, body.group_id),))


def _leave_for_a_while(
    state: ShardState, group: ConsumerGroup, member_id: str, member: ConsumerMember
) -> Result:
    """M20: the member keeps target and assignment until its session ends. Kafka leaves it in the state it
    was in (KAFKA-20641); with nothing left to revoke it is STABLE."""
    state.timers.cancel(rebalance_key(group.group_id, member_id))
    group.stop_revoking(member_id)
    current = member.current or NOT_JOINED
    left = assignment_epochs.reset(assignment_epochs.released(current, LEAVE_STATIC_EPOCH))
    key = ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group.group_id, member_id)
    return Result(records=[Record(key, left)])


def remove_members(
    state: ShardState, group: ConsumerGroup, gone: Sequence[str], cause: str, now_ms: int
) -> Result:
    """Tombstones in Kafka's order (8, 7, 5), then the bumped epoch, which is the target's too if nobody stays
    (M19); or, if only members of the classic protocol stay, a classic group that rebalances (G7). The members
    `gone` are in the group, none twice."""
    events = consumer_history.removed(state, group, gone, cause, now_ms)
    if is_due(state, group, gone):
        result = _downgrade(state, group, gone, now_ms)
        return result._replace(events=[*events, *result.events])
    epoch = group.group_epoch + 1
    records = []
    for member_id in gone:
        drop_timers(state, group, member_id)
        records += member_tombstones(group, member_id)
    stay = _subscriptions_without(group, gone)
    kept_hash = group.metadata_hash
    if len(stay) < len(group.subscriptions):
        regexes = {subscription.key[1] for subscription in stay}
        for regex in sorted(group.regexes.keys() - regexes):
            records.append(Record(RegularExpressionKey(REGULAR_EXPRESSION, group.group_id, regex), None))
        names = {name for subscription in stay for name in subscription.key[0]}
        names.update(*(topics for regex, topics in regex_topics_of(group).items() if regex in regexes))
        kept_hash = metadata_hash(names, state.image)
    key = ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id)
    records.append(Record(key, ConsumerGroupValue(epoch, kept_hash)))
    if len(gone) == group.size:
        # M8: as no target was computed at any time, whoever comes next need not wait for one.
        target_key = ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group.group_id)
        records.append(Record(target_key, TargetMetadataValue(epoch, NEVER_MS)))
    events += consumer_history.bumped_by_removal(state, group, gone, cause, now_ms)
    return Result(records, (), events)


def _downgrade(state: ShardState, group: ConsumerGroup, gone: Sequence[str], now_ms: int) -> Result:
    outcome = Outcome(state, now_ms)
    live = classic_twin(outcome, group, gone)
    for member_id in list(group.members):
        drop_timers(state, group, member_id)
    take_over(outcome, group, live, rebalances=True)
    prepare_rebalance(outcome, live, Cause("the group became a classic one", gone[0]))
    return outcome.result()


def _subscriptions_without(group: ConsumerGroup, gone: Sequence[str]) -> list[Subscription]:
    """The subscriptions that somebody has who stays."""
    leaving = Counter(s.key for s in (group.members[i].subscription for i in gone) if s is not None)
    return [s for key, s in group.subscriptions.items() if s.member_count > leaving[key]]


def drop_timers(state: ShardState, group: ConsumerGroup, member_id: str) -> None:
    state.timers.cancel(session_key(group.group_id, member_id))
    state.timers.cancel(rebalance_key(group.group_id, member_id))
    migration_timers.cancel(state, group.group_id, member_id)
    group.stop_revoking(member_id)


def session_over(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """M17: no heartbeat for the session timeout. Static members go too, whether at epoch -2 or not."""
    group, member_id = consumer_groups(state).get(str(key[1])), str(key[2])
    if group is None or group.member(member_id) is None:
        return NOTHING
    return remove_members(state, group, (member_id,), CAUSE_SESSION_TIMEOUT, now_ms)


def rebalance_over(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """M16, A14: a member that has not revoked in time is removed, if it still is where it was."""
    group, member_id = consumer_groups(state).get(str(key[1])), str(key[2])
    member = None if group is None else group.member(member_id)
    if group is None or member is None or member.standing is None:
        return NOTHING
    epoch = group.stop_revoking(member_id)
    if member.standing.state != UNREVOKED_PARTITIONS or member.standing.member_epoch != epoch:
        return NOTHING
    return remove_members(state, group, (member_id,), CAUSE_REBALANCE_TIMEOUT, now_ms)
