"""Check what a client may ask of groups, as Kafka's brokers do before the coordinator sees a request, with
the answer that each API gives to a refusal (W10, W11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.ground.acl import Operation, ResourceType
from actors.ground.image import MetadataImage, TopicImage
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
from actors.protocol.push_messages import RegisterConsumerRequest, RegisterConsumerResponse
from actors.security.authorizer import Access
from actors.security.screening import Finish, Screened, parted, refused

GROUP_FAILED: Final = ErrorCode.group_authorization_failed
TOPIC_FAILED: Final = ErrorCode.topic_authorization_failed
HIDDEN_MESSAGE: Final = "The group has described topic(s) that the client is not authorized to describe."

TopicsById = Mapping[bytes, TopicImage]


def _of_member(refusal: Any) -> Callable[[Access, MetadataImage, int, Any], Screened]:
    """Return the check of a member's request, which needs READ of its group."""

    def check(access: Access, image: MetadataImage, api_version: int, body: Any) -> Screened:
        may = access.may(Operation.READ, ResourceType.GROUP, body.group_id)
        return Screened(body) if may else refused(refusal)

    return check


join_group = _of_member(JoinGroupResponse(GROUP_FAILED))
sync_group = _of_member(SyncGroupResponse(GROUP_FAILED))
heartbeat = _of_member(HeartbeatResponse(GROUP_FAILED))
leave_group = _of_member(LeaveGroupResponse(GROUP_FAILED))
_consumer_member = _of_member(ConsumerGroupHeartbeatResponse(GROUP_FAILED))


def consumer_heartbeat(
    access: Access, image: MetadataImage, api_version: int, body: ConsumerGroupHeartbeatRequest
) -> Screened:
    """Screen a heartbeat: a subscription to a topic that is not to be seen would show whether there is one
    (W11)."""
    seen = (
        access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        for topic in body.subscribed_topic_names or ()
    )
    screened = _consumer_member(access, image, api_version, body)
    if screened.body is None or all(seen):
        return screened
    return refused(ConsumerGroupHeartbeatResponse(TOPIC_FAILED))


_push_consumer = _of_member(RegisterConsumerResponse(GROUP_FAILED, "The group may not be read."))


def register_consumer(
    access: Access, image: MetadataImage, api_version: int, body: RegisterConsumerRequest
) -> Screened:
    """Screen RegisterConsumer: READ of the group, and of each topic that is named (D3). What a wildcard
    matches a consumer is told of and cannot read without that right: whoever may use wildcards needs READ of
    all topics."""
    screened = _push_consumer(access, image, api_version, body)
    if screened.body is None:
        return screened
    named = {each.topic for each in body.topic_counts if not each.is_wildcard}
    if any(each.is_wildcard for each in body.topic_counts):
        named |= image.created_topics.keys()
    if all(access.may(Operation.READ, ResourceType.TOPIC, topic) for topic in named):
        return screened
    message = "A topic may not be read; a wildcard needs the right to read all topics."
    return refused(RegisterConsumerResponse(TOPIC_FAILED, message))


def topic_check(
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


def picked(values: tuple[bytes, ...] | None, entries: tuple[tuple[int, Any], ...]) -> Any:
    return None if values is None else tuple(values[position] for position, _ in entries)


def offset_commit(
    access: Access, image: MetadataImage, api_version: int, body: OffsetCommitRequest
) -> Screened:
    """Screen OffsetCommit: READ of the group, and of each topic."""
    if not access.may(Operation.READ, ResourceType.GROUP, body.group_id):
        return refused(_commit_refused(tuple(enumerate(body.topics)), body.topic_ids, GROUP_FAILED))
    check = topic_check(access, Operation.READ, image.topics_by_id, body.topic_ids)
    allowed, others = parted(enumerate(body.topics), check)
    if not others:
        return Screened(body)
    no = _commit_refused(others, body.topic_ids, TOPIC_FAILED)
    if not allowed:
        return refused(no)
    left = body._replace(
        topics=tuple(topic for _, topic in allowed), topic_ids=picked(body.topic_ids, allowed)
    )

    def finish(served: OffsetCommitResponse) -> OffsetCommitResponse:
        ids = None if served.topic_ids is None else (no.topic_ids or ()) + served.topic_ids
        return OffsetCommitResponse(no.topics + served.topics, ids)

    return Screened(left, finish)


def _commit_refused(
    topics: tuple[tuple[int, Any], ...], topic_ids: tuple[bytes, ...] | None, error: ErrorCode
) -> OffsetCommitResponse:
    answers = refused_commit((topic for _, topic in topics), error)
    return OffsetCommitResponse(answers, picked(topic_ids, topics))


def offset_fetch(
    access: Access, image: MetadataImage, api_version: int, body: OffsetFetchRequest
) -> Screened:
    """Screen OffsetFetch: DESCRIBE of each group, and of each topic."""
    topics_by_id = image.topics_by_id
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
    check = topic_check(access, Operation.DESCRIBE, topics_by_id, group.topic_ids)
    allowed, others = parted(enumerate(group.topics), check)
    topics = tuple(
        (name, tuple(FetchedOffset(partition, error_code=TOPIC_FAILED) for partition in partitions))
        for _, (name, partitions) in others
    )
    hidden_ids = picked(group.topic_ids, others)

    def finish(served: FetchedGroup) -> FetchedGroup:
        if not others or served.error_code:
            return served
        ids = None if served.topic_ids is None else served.topic_ids + (hidden_ids or ())
        return served._replace(topics=served.topics + topics, topic_ids=ids)

    left = group._replace(
        topics=tuple(topic for _, topic in allowed), topic_ids=picked(group.topic_ids, allowed)
    )
    return left, finish


def _only_described(access: Access, topics_by_id: TopicsById, served: FetchedGroup) -> FetchedGroup:
    """Return an answer to a client that asks for all topics, without those that it may not see."""
    check = topic_check(access, Operation.DESCRIBE, topics_by_id, served.topic_ids)
    shown, _ = parted(enumerate(served.topics), check)
    topics = tuple(topic for _, topic in shown)
    return served._replace(topics=topics, topic_ids=picked(served.topic_ids, shown))


def offset_delete(
    access: Access, image: MetadataImage, api_version: int, body: OffsetDeleteRequest
) -> Screened:
    """Screen OffsetDelete: DELETE of the group, and READ of each topic."""
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


def describe_groups(
    access: Access, image: MetadataImage, api_version: int, body: DescribeGroupsRequest
) -> Screened:
    """Screen DescribeGroups: DESCRIBE of each group."""
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


def consumer_describe(
    access: Access, image: MetadataImage, api_version: int, body: ConsumerGroupDescribeRequest
) -> Screened:
    """Screen ConsumerGroupDescribe: DESCRIBE of each group, and of every topic that is assigned in it."""
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


def delete_groups(
    access: Access, image: MetadataImage, api_version: int, body: DeleteGroupsRequest
) -> Screened:
    """Screen DeleteGroups: DELETE of each group."""
    allowed, others = parted(
        dict.fromkeys(body.groups_names), lambda name: access.may(Operation.DELETE, ResourceType.GROUP, name)
    )
    if not others:
        return Screened(body)
    no = tuple((group_id, GROUP_FAILED) for group_id in others)

    def finish(served: DeleteGroupsResponse | None) -> DeleteGroupsResponse:
        return DeleteGroupsResponse((() if served is None else served.results) + no)

    return Screened(body._replace(groups_names=allowed) if allowed else None, finish)


def list_groups(access: Access, image: MetadataImage, api_version: int, body: ListGroupsRequest) -> Screened:
    """Screen ListGroups: DESCRIBE of the cluster, or of each group that is listed."""
    if access.may_cluster(Operation.DESCRIBE):
        return Screened(body)

    def finish(served: ListGroupsResponse) -> ListGroupsResponse:
        shown = (g for g in served.groups if access.may(Operation.DESCRIBE, ResourceType.GROUP, g.group_id))
        return served._replace(groups=tuple(shown))

    return Screened(body, finish)
