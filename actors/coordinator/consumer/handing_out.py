"""ConsumerGroupPrepareAssignment (A9): the member that computes asks for the group as it is."""

from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.asking_members import assignor_of
from actors.coordinator.consumer.client_assignors.job import Computation, Handed, HandedMember, end
from actors.coordinator.consumer.members import find_group, unknown_member
from actors.coordinator.consumer.model.group import NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.metadata import regex_topics_of, subscribed_topic_ids
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.consumer.target_arrays import partition_racks
from actors.coordinator.ground.partitions import EMPTY
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request, Result, answered
from actors.ground.image import MetadataImage
from actors.ground.limits import HANDED_BYTES_MAX
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
    PreparedMember,
    PreparedTopic,
)
from actors.protocol.errors import GroupError

_FIXED_BYTES: Final = 64
"""More than what a member or a topic takes beside its texts, ids and partitions."""


def find_computation(
    state: ShardState, body: PrepareAssignmentRequest | InstallAssignmentRequest
) -> tuple[ConsumerGroup, Computation]:
    """Return the group and its computation, which is this member's. Raises GroupError in the order of the
    document: 69 no such group, 25 no such member, 113 another epoch, 25 somebody else is to compute."""
    group = find_group(state, body.group_id)
    member = group.member(body.member_id)
    if member is None:
        raise unknown_member(body.group_id, body.member_id)
    epoch = (member.current or NOT_JOINED).member_epoch
    if body.member_epoch != epoch:
        raise GroupError(
            ErrorCode.stale_member_epoch,
            f"The member's epoch is {epoch}, and the request says {body.member_epoch}.",
        )
    computation = kept(state).computations.get(body.group_id)
    if computation is None or computation.member_id != body.member_id:
        raise GroupError(
            ErrorCode.unknown_member_id,
            f"Member {body.member_id} is not asked to compute the assignment of group {body.group_id}.",
        )
    return group, computation


def prepare(state: ShardState, request: Request, now_ms: int) -> Result:
    """Hand the group out as it is. Asked again, it is handed out anew, and the time limit stays."""
    body: PrepareAssignmentRequest = request.body
    group, computation = find_computation(state, body)
    assignor = assignor_of(group.client_assignors, group.size)
    if assignor is None:
        end(state, body.group_id)
        raise unknown_member(body.group_id, body.member_id)
    members = tuple(_members(group, assignor, state.image))
    ids = sorted(frozenset[bytes]().union(*(each.topic_ids for each in members)))
    topics = tuple(_topic(state.image, topic_id) for topic_id in ids)
    size = sum(map(_member_bytes, members)) + sum(map(_topic_bytes, topics))
    if size > HANDED_BYTES_MAX:
        computation.is_too_large = True
        raise GroupError(
            ErrorCode.message_too_large,
            f"Group {body.group_id} is handed out in about {size} bytes, {HANDED_BYTES_MAX} are the most:"
            " the server's assignor assigns it.",
        )
    computation.assignor = assignor
    computation.handed = Handed(
        group.group_epoch,
        {each.member_id: HandedMember(each.instance_id, each.topic_ids) for each in members},
        {topic.topic_id: topic.partition_count for topic in topics},
    )
    answer = PrepareAssignmentResponse(0, None, group.group_epoch, assignor, members, topics)
    return answered(request.token, answer, body.group_id)


def _members(group: ConsumerGroup, assignor: str, image: MetadataImage) -> list[PreparedMember]:
    regex_topics = regex_topics_of(group)
    found = []
    for member_id, member in group.members.items():
        if member.terms is None or member.subscription is None:
            continue
        brought = next(each for each in group.client_assignors[member_id] if each.name == assignor)
        found.append(
            PreparedMember(
                member_id,
                (member.current or NOT_JOINED).member_epoch,
                member.instance_id,
                member.terms.rack_id,
                subscribed_topic_ids(member.subscription, regex_topics, image),
                brought.reason,
                brought.version,
                brought.metadata,
                EMPTY if member.target is None else member.target,
            )
        )
    return found


def _topic(image: MetadataImage, topic_id: bytes) -> PreparedTopic:
    topic = image.topics_by_id[topic_id]
    racks = tuple(rack or "" for rack in partition_racks(image, topic_id))
    return PreparedTopic(topic_id, topic.name, topic.partition_count, racks if any(racks) else ())


def _member_bytes(member: PreparedMember) -> int:
    texts = len(member.member_id) + len(member.instance_id or "") + len(member.rack_id or "")
    partitions = sum(len(packed) + 20 for _, packed in member.target)
    return _FIXED_BYTES + 4 * texts + 16 * len(member.topic_ids) + len(member.metadata) + partitions


def _topic_bytes(topic: PreparedTopic) -> int:
    return _FIXED_BYTES + 4 * len(topic.name) + sum(1 + 4 * len(rack) for rack in topic.racks)
