"""Convert the coordinator's neutral answers to kio's entities, for the group APIs that are asked seldom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from struct import unpack
from typing import Any, Final
from uuid import UUID

from actors.protocol import api_keys
from actors.protocol.entities import build, nested, response_class
from actors.protocol.messages import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DescribedConsumerMember,
    DescribedTopicPartitions,
    DescribeGroupsResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetDeleteResponse,
)

LEFT_MEMBERS_SINCE: Final = 3
_ZERO_ID: Final = bytes(16)


class Built:
    """The entities of many rows, each made when it is written and forgotten then: 100,000 of them that go at
    once would hold up all clients."""

    def __init__(self, rows: Sequence[Any], entity_of: Callable[[Any], Any]) -> None:
        self._rows = rows
        self._entity_of = entity_of

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return map(self._entity_of, self._rows)


def _plain(entity_class: Any, row: Any) -> Any:
    return build(entity_class, **row._asdict())


def leave_group(api_version: int, body: LeaveGroupResponse) -> Any:
    top = response_class(api_keys.LEAVE_GROUP, api_version)
    if api_version < LEFT_MEMBERS_SINCE:
        # The single member's error has no other place (W7).
        error_code = body.error_code or (body.members[0].error_code if body.members else body.error_code)
        return build(top, error_code=error_code)
    member_class = nested(api_keys.LEAVE_GROUP, api_version, "MemberResponse")
    members = tuple(build(member_class, **member._asdict()) for member in body.members)
    return build(top, error_code=body.error_code, members=members)


def offset_delete(api_version: int, body: OffsetDeleteResponse) -> Any:
    topic_class = nested(api_keys.OFFSET_DELETE, api_version, "OffsetDeleteResponseTopic")
    partition_class = nested(api_keys.OFFSET_DELETE, api_version, "OffsetDeleteResponsePartition")
    topics = tuple(
        build(
            topic_class,
            name=name,
            partitions=tuple(
                build(partition_class, partition_index=partition, error_code=error_code)
                for partition, error_code in partitions
            ),
        )
        for name, partitions in body.topics
    )
    top = response_class(api_keys.OFFSET_DELETE, api_version)
    return build(top, error_code=body.error_code, topics=topics)


def describe_groups(api_version: int, body: DescribeGroupsResponse) -> Any:
    group_class = nested(api_keys.DESCRIBE_GROUPS, api_version, "DescribedGroup")
    member_class = nested(api_keys.DESCRIBE_GROUPS, api_version, "DescribedGroupMember")
    groups = []
    for group in body.groups:
        members = Built(group.members, partial(_plain, member_class))
        groups.append(build(group_class, **(group._asdict() | {"members": members})))
    return build(response_class(api_keys.DESCRIBE_GROUPS, api_version), groups=tuple(groups))


def list_groups(api_version: int, body: ListGroupsResponse) -> Any:
    group_class = nested(api_keys.LIST_GROUPS, api_version, "ListedGroup")
    groups = Built(body.groups, partial(_plain, group_class))
    top = response_class(api_keys.LIST_GROUPS, api_version)
    return build(top, error_code=body.error_code, groups=groups)


def delete_groups(api_version: int, body: DeleteGroupsResponse) -> Any:
    result_class = nested(api_keys.DELETE_GROUPS, api_version, "DeletableGroupResult")
    results = tuple(
        build(result_class, group_id=group_id, error_code=error_code) for group_id, error_code in body.results
    )
    return build(response_class(api_keys.DELETE_GROUPS, api_version), results=results)


def _assignment(api_version: int, topics: tuple[DescribedTopicPartitions, ...]) -> Any:
    topic_class = nested(api_keys.CONSUMER_GROUP_DESCRIBE, api_version, "TopicPartitions")
    return build(
        nested(api_keys.CONSUMER_GROUP_DESCRIBE, api_version, "Assignment"),
        topic_partitions=tuple(
            build(
                topic_class,
                topic_id=None if topic.topic_id == _ZERO_ID else UUID(bytes=topic.topic_id),
                topic_name=topic.topic_name,
                partitions=unpack(f">{len(topic.partitions) // 4}i", topic.partitions),
            )
            for topic in topics
        ),
    )


def _consumer_member(api_version: int, member_class: Any, member: DescribedConsumerMember) -> Any:
    fields = member._asdict()
    fields["assignment"] = _assignment(api_version, member.assignment)
    fields["target_assignment"] = _assignment(api_version, member.target_assignment)
    return build(member_class, **fields)


def consumer_describe(api_version: int, body: ConsumerGroupDescribeResponse) -> Any:
    group_class = nested(api_keys.CONSUMER_GROUP_DESCRIBE, api_version, "DescribedGroup")
    member_class = nested(api_keys.CONSUMER_GROUP_DESCRIBE, api_version, "Member")
    groups = []
    for group in body.groups:
        members = Built(group.members, partial(_consumer_member, api_version, member_class))
        groups.append(build(group_class, **(group._asdict() | {"members": members})))
    return build(response_class(api_keys.CONSUMER_GROUP_DESCRIBE, api_version), groups=tuple(groups))
