"""Check what a client may ask of groups, as Kafka's brokers do before the coordinator sees a request, with
the answer that each API gives to a refusal (W10, W11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.ground.acl import Operation, ResourceType
from actors.ground.image import MetadataImage, TopicImage
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedClassicGroup,
    DescribedConsumerGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    FetchedOffset,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from actors.protocol.offset_refusals import refused_commit, refused_fetch
from actors.security import transaction_checks
from actors.security.authorizer import Access
from actors.security.screening import Finish, Screened, parted, refused

GROUP_FAILED: Final = ErrorCode.group_authorization_failed
TOPIC_FAILED: Final = ErrorCode.topic_authorization_failed
HIDDEN_MESSAGE: Final = "The group has described topic(s) that the client is not authorized to describe."

TopicsById = Mapping[bytes, TopicImage]


def screen(access: Access, image: MetadataImage, api_key: int, api_version: int, body: Any) -> Screened:
    """Return what `access` leaves of a request that coordinators answer. The image gives requests with topic
    ids their names; an unknown id is left to the coordinator."""
    topics_by_id = image.topics_by_id
    if api_key in _READERS:
        return _reader(access, api_key, body)
    match body:
        case OffsetCommitRequest():
            return _offset_commit(access, topics_by_id, body)
        case OffsetFetchRequest():
            return _offset_fetch(access, topics_by_id, api_version, body)
        case OffsetDeleteRequest():
            return _offset_delete(access, body)
        case DescribeGroupsRequest():
            return _describe_groups(access, body)
        case ConsumerGroupDescribeRequest():
            return _consumer_describe(access, body)
        case DeleteGroupsRequest():
            return _delete_groups(access, body)
        case ListGroupsRequest():
            return _list_groups(access, body)
    return transaction_checks.screen(access, image, api_version, body)


def asks_for_operations(body: Any) -> bool:
    """Return whether the answer tells what the client may do, which also a tier without an authorizer
    knows."""
    return bool(getattr(body, "include_authorized_operations", False))


_READERS: Final[Mapping[int, Any]] = {
    api_keys.JOIN_GROUP: JoinGroupResponse(GROUP_FAILED),
    api_keys.SYNC_GROUP: SyncGroupResponse(GROUP_FAILED),
    api_keys.HEARTBEAT: HeartbeatResponse(GROUP_FAILED),
    api_keys.LEAVE_GROUP: LeaveGroupResponse(GROUP_FAILED),
    api_keys.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatResponse(GROUP_FAILED),
}
"""API key -> the answer that refuses it, for members' requests, which need READ of their group."""


def _reader(access: Access, api_key: int, body: Any) -> Screened:
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return refused(_READERS[api_key])
    if isinstance(body, ConsumerGroupHeartbeatRequest) and body.subscribed_topic_names:
        # W11: a subscription to a topic that is not to be seen would show whether there is one.
        seen = (access.may(Operation.DESCRIBE, ResourceType.TOPIC, t) for t in body.subscribed_topic_names)
        if not all(seen):
            return refused(ConsumerGroupHeartbeatResponse(TOPIC_FAILED))
    return Screened(body)


def _topic_check(
    access: Access, operation: Operation, topics_by_id: TopicsById, topic_ids: tuple[bytes, ...] | None
) -> Callable[[tuple[int, Any]], bool]:
    """Return the check whether an entry (position, (topic, ...)) of a request's topics may be served."""

    def allowed(entry: tuple[int, Any]) -> bool:
        position, topic = entry
        name = topic[0]
        if topic_ids is not None:
            known = topics_by_id.get(topic_ids[position])
            if known is None:
                return True
            name = known.name
        return access.may(operation, ResourceType.TOPIC, name)

    return allowed


def _picked(values: tuple[bytes, ...] | None, entries: tuple[tuple[int, Any], ...]) -> Any:
    return None if values is None else tuple(values[position] for position, _ in entries)


def _offset_commit(access: Access, topics_by_id: TopicsById, body: OffsetCommitRequest) -> Screened:
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return refused(_commit_refused(tuple(enumerate(body.topics)), body.topic_ids, GROUP_FAILED))
    check = _topic_check(access, Operation.READ, topics_by_id, body.topic_ids)
    allowed, others = parted(enumerate(body.topics), check)
    if not others:
        return Screened(body)
    no = _commit_refused(others, body.topic_ids, TOPIC_FAILED)
    if not allowed:
        return refused(no)
    left = body._replace(
        topics=tuple(topic for _, topic in allowed), topic_ids=_picked(body.topic_ids, allowed)
    )

    def finish(served: OffsetCommitResponse) -> OffsetCommitResponse:
        ids = None if served.topic_ids is None else (no.topic_ids or ()) + served.topic_ids
        return OffsetCommitResponse(no.topics + served.topics, ids)

    return Screened(left, finish)


def _commit_refused(
    topics: tuple[tuple[int, Any], ...], topic_ids: tuple[bytes, ...] | None, error: ErrorCode
) -> OffsetCommitResponse:
    answers = refused_commit((topic for _, topic in topics), error)
    return OffsetCommitResponse(answers, _picked(topic_ids, topics))


def _offset_fetch(
    access: Access, topics_by_id: TopicsById, api_version: int, body: OffsetFetchRequest
) -> Screened:
    left: list[OffsetFetchGroup] = []
    places: list[FetchedGroup | Finish] = []
    """The refusal of each group that is asked for, or how its answer is completed."""
    for group in body.groups:
        if not access.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            places.append(refused_fetch(group, GROUP_FAILED, api_version))
            continue
        allowed, finish = _fetch_of_group(access, topics_by_id, group)
        left.append(allowed)
        places.append(finish)

    def finish_all(served: OffsetFetchResponse | None) -> OffsetFetchResponse:
        answers = iter(() if served is None else served.groups)
        return OffsetFetchResponse(
            tuple(place if isinstance(place, FetchedGroup) else place(next(answers)) for place in places)
        )

    return Screened(body._replace(groups=tuple(left)) if left else None, finish_all)


def _fetch_of_group(
    access: Access, topics_by_id: TopicsById, group: OffsetFetchGroup
) -> tuple[OffsetFetchGroup, Finish]:
    if group.topics is None:
        return group, lambda served: _only_described(access, topics_by_id, served)
    check = _topic_check(access, Operation.DESCRIBE, topics_by_id, group.topic_ids)
    allowed, others = parted(enumerate(group.topics), check)
    topics = tuple(
        (name, tuple(FetchedOffset(partition, error_code=TOPIC_FAILED) for partition in partitions))
        for _, (name, partitions) in others
    )
    hidden_ids = _picked(group.topic_ids, others)

    def finish(served: FetchedGroup) -> FetchedGroup:
        if not others or served.error_code:
            return served
        ids = None if served.topic_ids is None else served.topic_ids + (hidden_ids or ())
        return served._replace(topics=served.topics + topics, topic_ids=ids)

    left = group._replace(
        topics=tuple(topic for _, topic in allowed), topic_ids=_picked(group.topic_ids, allowed)
    )
    return left, finish


def _only_described(access: Access, topics_by_id: TopicsById, served: FetchedGroup) -> FetchedGroup:
    """Return an answer to a client that asks for all topics, without those that it may not see."""
    check = _topic_check(access, Operation.DESCRIBE, topics_by_id, served.topic_ids)
    shown, _ = parted(enumerate(served.topics), check)
    topics = tuple(topic for _, topic in shown)
    return served._replace(topics=topics, topic_ids=_picked(served.topic_ids, shown))


def _offset_delete(access: Access, body: OffsetDeleteRequest) -> Screened:
    if not access.may(Operation.DELETE, ResourceType.GROUP, body.group_id):
        return refused(OffsetDeleteResponse(GROUP_FAILED))
    allowed, others = parted(
        body.topics, lambda topic: access.may(Operation.READ, ResourceType.TOPIC, topic[0])
    )
    if not others:
        return Screened(body)
    no = tuple((name, tuple((partition, TOPIC_FAILED) for partition in each)) for name, each in others)
    if not allowed:
        return refused(OffsetDeleteResponse(ErrorCode.none, no))

    def finish(served: OffsetDeleteResponse) -> OffsetDeleteResponse:
        return served if served.error_code else served._replace(topics=no + served.topics)

    return Screened(body._replace(topics=allowed), finish)


def _describe_groups(access: Access, body: DescribeGroupsRequest) -> Screened:
    allowed, others = parted(body.groups, lambda g: access.may(Operation.DESCRIBE, ResourceType.GROUP, g))
    no = tuple(DescribedClassicGroup(GROUP_FAILED, group_id) for group_id in others)

    def finish(served: DescribeGroupsResponse | None) -> DescribeGroupsResponse:
        groups = () if served is None else served.groups
        if body.include_authorized_operations:
            groups = tuple(_with_operations(access, group) for group in groups)
        return DescribeGroupsResponse(no + groups)

    return Screened(body._replace(groups=allowed) if allowed else None, finish)


def _with_operations(access: Access, group: Any) -> Any:
    if group.error_code:
        return group
    return group._replace(authorized_operations=access.operations(ResourceType.GROUP, group.group_id))


def _consumer_describe(access: Access, body: ConsumerGroupDescribeRequest) -> Screened:
    allowed, others = parted(
        body.group_ids, lambda group_id: access.may(Operation.DESCRIBE, ResourceType.GROUP, group_id)
    )
    no = tuple(DescribedConsumerGroup(GROUP_FAILED, group_id) for group_id in others)

    def finish(served: ConsumerGroupDescribeResponse | None) -> ConsumerGroupDescribeResponse:
        groups = () if served is None else served.groups
        if body.include_authorized_operations:
            groups = tuple(_with_operations(access, group) for group in groups)
        return ConsumerGroupDescribeResponse(no + tuple(_shown(access, group) for group in groups))

    return Screened(body._replace(group_ids=allowed) if allowed else None, finish)


def _shown(access: Access, group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    """Return what a client is shown of a group: nothing, if it may not see one of the topics that are
    assigned (W11)."""
    topics = {
        topic.topic_name
        for member in group.members
        for topic in (*member.assignment, *member.target_assignment)
    }
    if all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        return group
    return DescribedConsumerGroup(TOPIC_FAILED, group.group_id, HIDDEN_MESSAGE)


def _delete_groups(access: Access, body: DeleteGroupsRequest) -> Screened:
    allowed, others = parted(
        dict.fromkeys(body.groups_names), lambda name: access.may(Operation.DELETE, ResourceType.GROUP, name)
    )
    if not others:
        return Screened(body)
    no = tuple((group_id, GROUP_FAILED) for group_id in others)

    def finish(served: DeleteGroupsResponse | None) -> DeleteGroupsResponse:
        return DeleteGroupsResponse((() if served is None else served.results) + no)

    return Screened(body._replace(groups_names=allowed) if allowed else None, finish)


def _list_groups(access: Access, body: ListGroupsRequest) -> Screened:
    if access.may_cluster(Operation.DESCRIBE):
        return Screened(body)

    def finish(served: ListGroupsResponse) -> ListGroupsResponse:
        shown = (g for g in served.groups if access.may(Operation.DESCRIBE, ResourceType.GROUP, g.group_id))
        return served._replace(groups=tuple(shown))

    return Screened(body, finish)
