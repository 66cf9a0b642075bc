"""A classic group with members becomes a consumer group (G1, G2): they keep generation and partitions.

The first ConsumerGroupHeartbeat of a new member decides it. All is computed before anything changes, for
that heartbeat may still be refused, and then the classic group goes on undisturbed.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.group import ClassicGroup, ClassicMember
from actors.coordinator.classic.protocols import CONSUMER_PROTOCOL_TYPE
from actors.coordinator.classic.rebalance import forget
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.consumer.migration.policy import allows_upgrade
from actors.coordinator.consumer.model import apply as consumer_apply
from actors.coordinator.consumer.model.group import NEVER_MS, NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import STABLE, session_key
from actors.coordinator.consumer.model.metadata import metadata_hash
from actors.coordinator.ground import partitions, regex
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, Reply
from actors.ground.image import MetadataImage
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    TargetMemberValue,
    TargetMetadataValue,
    TopicPartitions,
)
from actors.protocol.consumer_protocol import (
    Subscription,
    TopicNumbers,
    read_assignment,
    read_subscription,
)
from actors.protocol.errors import GroupError, MalformedRequest
from actors.protocol.messages import JoinGroupResponse, SyncGroupResponse


def upgraded(state: ShardState, live: ClassicGroup) -> ConsumerGroup:
    """The consumer group that a classic group with members becomes, not yet in `state`.

    Raises GroupError(group_id_not_found) if policy, size or the members' bytes do not allow it (G2).
    """
    _check(state, live)
    # A group in its first rebalance has not chosen yet; what it would choose is what its members speak.
    protocol_name = live.protocol_name or (live.select_protocol() if live.members else "")
    subscriptions = {i: _subscription(live, member, protocol_name) for i, member in live.members.items()}
    group = ConsumerGroup(live.group_id)
    for record in _records(live, subscriptions, state.image):
        consumer_apply.put(group, record)
    for member_id, subscription in subscriptions.items():
        _keep(group, member_id, with_ids(subscription.owned, state.image))
    return group


def take_over(state: ShardState, group: ConsumerGroup, now_ms: int) -> tuple[list[Record], list[Reply]]:
    """The live classic group of this id gives way to `group`, as `upgraded` made it or new if it was empty:
    the records that turn the one into the other, and answers to whoever was parked (G2). Both are empty if
    there is no classic group."""
    live = classic_groups(state).get(group.group_id)
    if live is None:
        return [], []
    records = [*consumer_apply.group_records(group), *classic_store.tombstones(state, group.group_id)]
    replies = []
    for member in live.members.values():
        replies += _sent_back(live, member)
        if member.member_id in group.members:
            key = session_key(group.group_id, member.member_id)
            state.timers.schedule(key, now_ms + member.session_timeout_ms)
    forget(state, group.group_id)
    return records, replies


def _check(state: ShardState, live: ClassicGroup) -> None:
    reason = None
    if not allows_upgrade(state.settings):
        reason = "online upgrade is disabled"
    elif live.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "the group does not use the consumer embedded protocol"
    elif len(live.members) > state.settings.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _refused(live, reason)


def _refused(live: ClassicGroup, reason: str) -> GroupError:
    return GroupError(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {live.group_id} to consumer group because {reason}.",
    )


def _records(
    live: ClassicGroup, subscriptions: Mapping[str, Subscription], image: MetadataImage
) -> list[Record]:
    """The records of the new group: all members have what they were last assigned, at the generation."""
    group_id, generation = live.group_id, live.generation
    records: list[Record] = []
    names: set[str] = set()
    for member in live.members.values():
        metadata = _member_value(member, subscriptions[member.member_id])
        assigned = _assigned(live, member, image)
        names.update(metadata.subscribed_topic_names)
        current = CurrentAssignmentValue(generation, generation, STABLE, assigned, partitions.EMPTY)
        for kind, value in (
            (CONSUMER_MEMBER_METADATA, metadata),
            (TARGET_ASSIGNMENT_MEMBER, TargetMemberValue(assigned)),
            (CURRENT_MEMBER_ASSIGNMENT, current),
        ):
            records.append(Record(ConsumerMemberKey(kind, group_id, member.member_id), value))
    target_key = ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id)
    records.append(Record(target_key, TargetMetadataValue(generation, NEVER_MS)))
    group_key = ConsumerGroupKey(CONSUMER_GROUP_METADATA, group_id)
    records.append(Record(group_key, ConsumerGroupValue(generation, metadata_hash(names, image))))
    return records


def _keep(group: ConsumerGroup, member_id: str, claimed: TopicPartitions) -> None:
    """A cooperative member has what it said in its last JoinGroup, also when a rebalance that was cut short
    has voided its assignment (C19). Unless it is somebody else's, it keeps that until it gives it up. (Kafka
    gives it to another at once.)"""
    free = partitions.from_lists(
        {
            topic_id: [number for number in partitions.unpack(packed) if not group.is_held(topic_id, number)]
            for topic_id, packed in claimed
        }
    )
    if free:
        current = group.members[member_id].current or NOT_JOINED
        assigned = partitions.union(current.assigned, free)
        group.set_current(member_id, current._replace(assigned=assigned))
        group.set_target(member_id, TargetMemberValue(assigned))


def _subscription(live: ClassicGroup, member: ClassicMember, protocol_name: str) -> Subscription:
    try:
        return read_subscription(member.metadata(protocol_name))
    except MalformedRequest as error:
        raise _refused(live, "the embedded consumer protocol is malformed") from error


def _member_value(member: ClassicMember, subscription: Subscription) -> ConsumerMemberValue:
    return ConsumerMemberValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex=regex.NONE,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic=(member.session_timeout_ms, member.protocols),
    )


def _assigned(live: ClassicGroup, member: ClassicMember, image: MetadataImage) -> TopicPartitions:
    """Topics that are no more are dropped silently (G2)."""
    if not member.assignment:
        return partitions.EMPTY
    try:
        assignment = read_assignment(member.assignment)
    except MalformedRequest as error:
        raise _refused(live, "the embedded consumer protocol is malformed") from error
    if assignment.user_data:
        # Only the assignor that wrote it could carry on from there.
        raise _refused(live, "an unsupported custom assignor is in use")
    return with_ids(assignment.partitions, image)


def with_ids(topics: TopicNumbers, image: MetadataImage) -> TopicPartitions:
    """Partitions by topic name, as clients of the classic protocol have them, by topic id."""
    numbers_by_id: dict[bytes, list[int]] = {}
    for name, numbers in topics:
        topic = image.topics.get(name)
        if topic is not None:
            numbers_by_id.setdefault(topic.topic_id, []).extend(numbers)
    return partitions.from_lists(numbers_by_id)


def _sent_back(live: ClassicGroup, member: ClassicMember) -> list[Reply]:
    """Whoever waits for a generation of the classic group joins the consumer group instead."""
    again = ErrorCode.rebalance_in_progress
    replies = []
    join_token, sync_token = live.take_join(member), member.sync_token
    member.sync_token = None
    if join_token is not None:
        replies.append(Reply(join_token, JoinGroupResponse(again, member_id=member.member_id), live.group_id))
    if sync_token is not None:
        replies.append(Reply(sync_token, SyncGroupResponse(again), live.group_id))
    return replies
