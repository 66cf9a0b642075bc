"""How members go: leave (M19), static leave (M20), session and rebalance timeouts (M16, M17)."""

from __future__ import annotations

from actors.contract import NOTHING, Record, Reply, Request, Result
from actors.coordinator import partitions
from actors.coordinator.consumer_events import (
    CAUSE_MEMBER_LEFT,
    CAUSE_REBALANCE_TIMEOUT,
    CAUSE_SESSION_TIMEOUT,
    EpochBumped,
    MemberFenced,
)
from actors.coordinator.consumer_members import find_group, find_static, unknown_member
from actors.coordinator.consumer_metadata import metadata_hash, regex_topics_of
from actors.coordinator.consumer_state import (
    LEAVE_STATIC_EPOCH,
    NOT_JOINED,
    STABLE,
    UNREVOKED_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
)
from actors.coordinator.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    RegularExpressionKey,
)
from actors.coordinator.state import ShardState
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(state: ShardState, request: Request, now_ms: int) -> Result:
    """Member epoch -1 or -2. Raises GroupError: 69 no such group, 25 no such member, 82 not its instance."""
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
        result = remove_member(state, group, body.member_id, CAUSE_MEMBER_LEFT, now_ms)
    answer = ConsumerGroupHeartbeatResponse(
        NO_ERROR, member_id=body.member_id, member_epoch=body.member_epoch
    )
    return result._replace(replies=(Reply(request.token, answer, body.group_id),))


def _leave_for_a_while(
    state: ShardState, group: ConsumerGroup, member_id: str, member: ConsumerMember
) -> Result:
    """M20: the member keeps target and assignment until its session ends. Kafka leaves it in the state it
    was in (KAFKA-20641); with nothing left to revoke it is STABLE."""
    state.timers.cancel(member.rebalance_key)
    group.rebalance_epochs.pop(member_id, None)
    current = member.current or NOT_JOINED
    left = current._replace(
        member_epoch=LEAVE_STATIC_EPOCH, state=STABLE, pending_revocation=partitions.EMPTY
    )
    key = ConsumerMemberKey(CURRENT_MEMBER_ASSIGNMENT, group.group_id, member_id)
    return Result(records=[Record(key, left)])


def remove_member(state: ShardState, group: ConsumerGroup, member_id: str, cause: str, now_ms: int) -> Result:
    """Tombstones in Kafka's order (8, 7, 5), then the bumped epoch (M19)."""
    member = group.members[member_id]
    drop_timers(state, group, member_id)
    epoch = group.group_epoch + 1
    records = member_tombstones(group.group_id, member_id)
    sole = member.subscription is not None and member.subscription.member_count == 1
    kept_hash = 0 if group.metadata is None else group.metadata.metadata_hash
    if sole:
        gone = _regex_only_of(group, member)
        if gone is not None:
            records.append(Record(RegularExpressionKey(REGULAR_EXPRESSION, group.group_id, gone), None))
        kept_hash = metadata_hash(_remaining_names(group, member, gone), state.image)
    records.append(
        Record(
            ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id), ConsumerGroupValue(epoch, kept_hash)
        )
    )
    fenced_epoch = (member.current or NOT_JOINED).member_epoch
    events = (
        MemberFenced(group.group_id, member_id, fenced_epoch, cause, now_ms),
        EpochBumped(group.group_id, epoch, cause, member_id, now_ms),
    )
    return Result(records=records, events=events)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    kinds = (CURRENT_MEMBER_ASSIGNMENT, TARGET_ASSIGNMENT_MEMBER, CONSUMER_MEMBER_METADATA)
    return [Record(ConsumerMemberKey(kind, group_id, member_id), None) for kind in kinds]


def drop_timers(state: ShardState, group: ConsumerGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is not None:
        state.timers.cancel(member.session_key)
        state.timers.cancel(member.rebalance_key)
    group.rebalance_epochs.pop(member_id, None)


def _regex_only_of(group: ConsumerGroup, member: ConsumerMember) -> str | None:
    """The member's regex, if no other member has it."""
    assert member.subscription is not None
    regex = member.subscription.key[1]
    others = any(s.key[1] == regex for s in group.subscriptions.values() if s is not member.subscription)
    return regex if regex and not others else None


def _remaining_names(group: ConsumerGroup, member: ConsumerMember, gone_regex: str | None) -> set[str]:
    assert member.subscription is not None
    counts = group.topic_counts
    names = set(counts).difference(n for n in member.subscription.key[0] if counts[n] == 1)
    for regex, topics in regex_topics_of(group).items():
        if regex != gone_regex:
            names.update(topics)
    return names


def session_over(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """M17: no heartbeat for the session timeout. Static members go too, whether at epoch -2 or not."""
    group, member_id = state.consumer.get(str(key[1])), str(key[2])
    if group is None or group.member(member_id) is None:
        return NOTHING
    return remove_member(state, group, member_id, CAUSE_SESSION_TIMEOUT, now_ms)


def rebalance_over(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """M16, A14: a member that has not revoked in time is removed, if it still is where it was."""
    group, member_id = state.consumer.get(str(key[1])), str(key[2])
    member = None if group is None else group.member(member_id)
    if group is None or member is None or member.current is None:
        return NOTHING
    epoch = group.rebalance_epochs.pop(member_id, None)
    if member.current.state != UNREVOKED_PARTITIONS or member.current.member_epoch != epoch:
        return NOTHING
    return remove_member(state, group, member_id, CAUSE_REBALANCE_TIMEOUT, now_ms)
