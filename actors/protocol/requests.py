"""Convert kio's request entities to the coordinator's neutral requests, for all group APIs and versions.

A field that a version lacks gets the schema's default here, once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from actors.ground.records import TopicPartitions
from actors.protocol.client_assignor_codec import client_assignors
from actors.protocol.hot_requests import packed_topics
from actors.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from actors.protocol.transaction_codec import committed_partition, id_bytes, topic_ids

_MILLISECOND: Final = timedelta(milliseconds=1)
_UNSET: Final = timedelta(milliseconds=-1)
TOPIC_IDS_SINCE: Final = 10
"""The first version of OffsetCommit and OffsetFetch with topic ids in the place of names (KIP-848)."""


def _ms(time: timedelta) -> int:
    return time // _MILLISECOND


def join_group(entity: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=entity.group_id,
        session_timeout_ms=_ms(entity.session_timeout),
        # Version 0 has one time-out for both (C4).
        rebalance_timeout_ms=_ms(getattr(entity, "rebalance_timeout", entity.session_timeout)),
        member_id=entity.member_id,
        group_instance_id=getattr(entity, "group_instance_id", None),
        protocol_type=entity.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in entity.protocols),
        reason=getattr(entity, "reason", None),
    )


def sync_group(entity: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=entity.group_id,
        generation_id=entity.generation_id,
        member_id=entity.member_id,
        group_instance_id=getattr(entity, "group_instance_id", None),
        protocol_type=getattr(entity, "protocol_type", None),
        protocol_name=getattr(entity, "protocol_name", None),
        assignments=tuple((given.member_id, given.assignment) for given in entity.assignments),
    )


def heartbeat(entity: Any) -> HeartbeatRequest:
    instance_id = getattr(entity, "group_instance_id", None)
    return HeartbeatRequest(entity.group_id, entity.generation_id, entity.member_id, instance_id)


def leave_group(entity: Any) -> LeaveGroupRequest:
    members = getattr(entity, "members", None)
    if members is None:
        return LeaveGroupRequest(entity.group_id, (LeavingMember(entity.member_id),))
    return LeaveGroupRequest(
        entity.group_id,
        tuple(
            LeavingMember(member.member_id, member.group_instance_id, getattr(member, "reason", None))
            for member in members
        ),
    )


def offset_commit(entity: Any) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=entity.group_id,
        generation_id_or_member_epoch=entity.generation_id_or_member_epoch,
        member_id=entity.member_id,
        group_instance_id=getattr(entity, "group_instance_id", None),
        retention_time_ms=_ms(getattr(entity, "retention_time", _UNSET)),
        topics=tuple(
            (getattr(topic, "name", ""), tuple(map(committed_partition, topic.partitions)))
            for topic in entity.topics
        ),
        topic_ids=topic_ids(entity, TOPIC_IDS_SINCE),
    )


def _fetch_group(entity: Any) -> OffsetFetchGroup:
    topics = entity.topics
    return OffsetFetchGroup(
        group_id=entity.group_id,
        topics=None
        if topics is None
        else tuple((getattr(topic, "name", ""), topic.partition_indexes) for topic in topics),
        member_id=getattr(entity, "member_id", None),
        member_epoch=getattr(entity, "member_epoch", -1),
        topic_ids=topic_ids(entity, TOPIC_IDS_SINCE),
    )


def offset_fetch(entity: Any) -> OffsetFetchRequest:
    # Below version 8 the request itself is its only group.
    groups = tuple(map(_fetch_group, getattr(entity, "groups", (entity,))))
    return OffsetFetchRequest(groups, getattr(entity, "require_stable", False))


def offset_delete(entity: Any) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        entity.group_id,
        tuple(
            (topic.name, tuple(partition.partition_index for partition in topic.partitions))
            for topic in entity.topics
        ),
    )


def describe_groups(entity: Any) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(entity.groups, getattr(entity, "include_authorized_operations", False))


def list_groups(entity: Any) -> ListGroupsRequest:
    return ListGroupsRequest(getattr(entity, "states_filter", ()), getattr(entity, "types_filter", ()))


def delete_groups(entity: Any) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(entity.groups_names)


def _owned(topics: Any) -> TopicPartitions | None:
    if topics is None:
        return None
    return packed_topics([(id_bytes(topic.topic_id), topic.partitions) for topic in topics])


def consumer_heartbeat(entity: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=entity.group_id,
        member_id=entity.member_id,
        member_epoch=entity.member_epoch,
        instance_id=entity.instance_id,
        rack_id=entity.rack_id,
        rebalance_timeout_ms=_ms(entity.rebalance_timeout),
        subscribed_topic_names=entity.subscribed_topic_names,
        subscribed_topic_regex=getattr(entity, "subscribed_topic_regex", None),
        server_assignor=entity.server_assignor,
        topic_partitions=_owned(entity.topic_partitions),
        client_assignors=client_assignors(entity),
    )


def consumer_describe(entity: Any) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(entity.group_ids, entity.include_authorized_operations)
