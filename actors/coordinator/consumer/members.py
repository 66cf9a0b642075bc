"""Which group and which member a heartbeat means, and whether it may speak (M2 to M4, M20 to M22, M27)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import group as classic_group
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.consumer.decision import Decision
from actors.coordinator.consumer.migration.upgrade import upgraded
from actors.coordinator.consumer.model import assignment_epochs
from actors.coordinator.consumer.model.group import LEAVE_STATIC_EPOCH, NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import ConsumerMember
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground import partitions
from actors.coordinator.ground.kind import hand_on
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record
from actors.ground.records import (
    CLIENT_ASSIGNMENT,
    CLIENT_ASSIGNORS,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    TARGET_ASSIGNMENT_MEMBER,
    ConsumerMemberKey,
    TargetMemberValue,
    TopicPartitions,
)
from actors.protocol.errors import GroupError
from actors.protocol.messages import ConsumerGroupHeartbeatRequest


def find_group(state: ShardState, group_id: str) -> ConsumerGroup:
    """The consumer group of this id. Raises GroupError(group_id_not_found)."""
    group = consumer_groups(state).get(group_id)
    if group is None:
        raise group_not_found(group_id)
    return group


def find_or_create_group(state: ShardState, body: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    """A group that does not exist yet, or is a classic one, is not in `state`: it will be once its records
    are applied. Raises GroupError: group_id_not_found, also if a classic group may not be upgraded (G2), or
    unknown_member_id."""
    group = consumer_groups(state).get(body.group_id)
    if group is not None:
        return group
    if body.member_epoch != 0:
        if state.from_kafka.has_lost_members:
            raise unknown_member(body.group_id, body.member_id)
        raise group_not_found(body.group_id)
    live = classic_groups(state).get(body.group_id)
    if live is None:
        not_ours = f"Group {body.group_id} is not a consumer group."
        hand_on(state, body.group_id, GroupError(ErrorCode.group_id_not_found, not_ours))
    elif live.state is not classic_group.EMPTY:
        return upgraded(state, live)
    return ConsumerGroup(body.group_id)


def refuse_if_full(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """M3: only a known member id or instance id gets into a full group."""
    if instance_id is not None and group.static_member_id(instance_id) is not None:
        return
    if group.size >= max_size and (not member_id or group.member(member_id) is None):
        raise GroupError(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def find_member(decision: Decision) -> None:
    """Find the member that the heartbeat is of. Raises GroupError: 25, 82, 110, 111."""
    body = decision.body
    if not decision.member_id:
        decision.member_id = decision.state.new_id()
    if body.instance_id is None:
        member = decision.group.member(decision.member_id)
        if member is not None:
            _check_epoch(member, body)
            speak_as(decision, member)
        elif body.member_epoch != 0:
            raise unknown_member(body.group_id, decision.member_id)
        return
    if body.member_epoch != 0:
        member = find_static(decision.group, body.instance_id, decision.member_id)
        _check_epoch(member, body)
        speak_as(decision, member)
        return
    join_static(decision, body.instance_id)


def find_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """M22. Raises GroupError: 25 unknown instance, 82 the instance belongs to another member id."""
    static_id = group.static_member_id(instance_id)
    if static_id is None:
        raise GroupError(
            ErrorCode.unknown_member_id,
            f"Instance id {instance_id} is unknown in group {group.group_id}.",
        )
    if static_id != member_id:
        raise GroupError(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static_id}.",
        )
    return group.members[static_id]


def join_static(decision: Decision, instance_id: str) -> None:
    """M21, G7: between two members of the consumer protocol the first must have left; one that speaks the
    classic protocol, or is followed by one that does, is replaced at once. Raises UNRELEASED_INSTANCE_ID."""
    group = decision.group
    static_id = group.static_member_id(instance_id)
    if static_id is None:
        member = group.member(decision.member_id)
        if member is not None:
            speak_as(decision, member)
        return
    member = group.members[static_id]
    current = member.current or NOT_JOINED
    assert member.terms is not None
    both_new = decision.classic is None and member.terms.classic is None
    if both_new and current.member_epoch != LEAVE_STATIC_EPOCH:
        raise GroupError(
            ErrorCode.unreleased_instance_id,
            f"Static member {decision.member_id} with instance id {instance_id} cannot join the group because"
            f" the instance id is owned by member {static_id}.",
        )
    speak_as(decision, member)
    decision.current = assignment_epochs.released(current, 0)._replace(previous_member_epoch=0)
    if static_id != decision.member_id:
        _replace_static(decision, static_id)


def _replace_static(decision: Decision, static_id: str) -> None:
    """M21: the newcomer takes over target and assignment under its own member id."""
    group_id = decision.group.group_id
    decision.replaced_id = static_id
    decision.stored = None
    decision.records += member_tombstones(decision.group, static_id)
    if decision.target is not None:
        key = ConsumerMemberKey(TARGET_ASSIGNMENT_MEMBER, group_id, decision.member_id)
        decision.records.append(Record(key, TargetMemberValue(decision.target)))


def member_tombstones(group: ConsumerGroup, member_id: str) -> list[Record]:
    """Tombstones for all that is kept of a member, in Kafka's order: 8, 7, 5; before them those of our own
    records."""
    kinds = [CURRENT_MEMBER_ASSIGNMENT, TARGET_ASSIGNMENT_MEMBER, CONSUMER_MEMBER_METADATA]
    if member_id in group.client_assignors:
        kinds.insert(0, CLIENT_ASSIGNORS)
    if member_id in group.client_assignments:
        kinds.insert(0, CLIENT_ASSIGNMENT)
    return [Record(ConsumerMemberKey(kind, group.group_id, member_id), None) for kind in kinds]


def speak_as(decision: Decision, member: ConsumerMember) -> None:
    """Take the request as the member's own."""
    metadata = member.metadata
    assert metadata is not None
    decision.stored = member
    decision.previous = decision.metadata = metadata
    decision.current = member.current or NOT_JOINED
    decision.target = member.target


def _check_epoch(member: ConsumerMember, body: ConsumerGroupHeartbeatRequest) -> None:
    """M4: a lower epoch passes only as the answer to a lost response: the previous epoch, and nothing owned
    that is not assigned."""
    current = member.current or NOT_JOINED
    sent = body.member_epoch
    if sent == 0 or sent == current.member_epoch:
        return
    if sent > current.member_epoch:
        raise _fenced("greater", sent, current.member_epoch)
    if sent != current.previous_member_epoch or not _owns_only(body.topic_partitions, current.assigned):
        raise _fenced("smaller", sent, current.member_epoch)


def _owns_only(owned: TopicPartitions | None, assigned: TopicPartitions) -> bool:
    return owned is not None and partitions.contains(assigned, owned)


def _fenced(relation: str, sent: int, known: int) -> GroupError:
    return GroupError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {relation} member epoch ({sent})"
        f" than the one known by the group coordinator ({known})."
        " The member must abandon all its partitions and rejoin.",
    )


def group_not_found(group_id: str) -> GroupError:
    return GroupError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")


def unknown_member(group_id: str, member_id: str) -> GroupError:
    return GroupError(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group_id}.")
