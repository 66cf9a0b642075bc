"""Consumer groups as the other areas see them: may a member commit or fetch, describe, list, delete."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.client_assignors.job import end
from actors.coordinator.consumer.leave import drop_timers
from actors.coordinator.consumer.members import find_group, unknown_member
from actors.coordinator.consumer.model.assignment_epochs import of_topic
from actors.coordinator.consumer.model.group import NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import NO_STANDING, ConsumerMember
from actors.coordinator.consumer.model.metadata import regex_topics_of
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.consumer.regexes import forget_regexes, subscribed_names
from actors.coordinator.consumer.target import preferred_assignor
from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.kind import Retention
from actors.coordinator.ground.partitions import EMPTY, union
from actors.coordinator.ground.slices import begun, sliced, whole
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from actors.coordinator.told.events import CONSUMER
from actors.ground.contract import NOTHING, Record, Reply, Request, Result
from actors.ground.image import MetadataImage
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerMemberKey,
    ConsumerMemberValue,
    CurrentAssignmentValue,
    RegularExpressionKey,
    TopicPartitions,
)
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
    ListedGroup,
    OffsetCommitRequest,
)
from actors.protocol.transaction_messages import TxnOffsetCommitRequest

MEMBER_EPOCH_VERSION = 9
"""The first version of OffsetCommit that carries a member epoch."""
TXN_STALE_EPOCH_VERSION = 6
"""The first version of TxnOffsetCommit that knows STALE_MEMBER_EPOCH."""
PROTOCOL_TYPE = "consumer"
"""What ListGroups shows in the place of a classic group's protocol type."""
_CONSUMER_MEMBER = 1
_CLASSIC_MEMBER = 0


def validate_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """O1, O6 for a consumer group. Raises GroupError: 25 unknown member, 35 a member of
    the consumer protocol below version 9, 113 (22 for a classic member) an epoch newer than the member's, or
    older than its hold of one of the partitions."""
    body: OffsetCommitRequest = request.body
    group = find_group(state, body.group_id)
    epoch = body.generation_id_or_member_epoch
    if epoch < 0 and group.size == 0:
        # As of an admin client or a consumer that assigns itself.
        return
    member = group.member(body.member_id)
    if member is None:
        raise unknown_member(body.group_id, body.member_id)
    assert member.terms is not None
    if request.api_version < MEMBER_EPOCH_VERSION and member.terms.classic is None:
        raise GroupError(
            ErrorCode.unsupported_version,
            f"OffsetCommit version {MEMBER_EPOCH_VERSION} or above must be used by members using the modern"
            " group protocol",
        )
    if epoch < (member.standing or NO_STANDING).member_epoch:
        _check_assignment_epochs(state, member, body)
    else:
        _check_epoch(member, epoch)


def validate_txn_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """O7: a TxnOffsetCommit that names no member is not asked who it is; any other is checked as an
    OffsetCommit of a version that may name a member epoch, but below version 6 no client of transactions
    knows STALE_MEMBER_EPOCH (KIP-1319)."""
    body: TxnOffsetCommitRequest = request.body
    if body.generation_id == -1 and body.member_id == "" and body.group_instance_id is None:
        return
    as_commit = OffsetCommitRequest(
        body.group_id, body.generation_id, body.member_id, body.group_instance_id, -1, body.topics
    )
    try:
        validate_commit(state, request._replace(body=as_commit, api_version=MEMBER_EPOCH_VERSION), now_ms)
    except GroupError as error:
        if error.error_code != ErrorCode.stale_member_epoch or request.api_version >= TXN_STALE_EPOCH_VERSION:
            raise
        raise GroupError(ErrorCode.illegal_generation) from error


def validate_fetch(state: ShardState, group_id: str, member_id: str | None, member_epoch: int) -> None:
    """O11: nothing to check for other kinds of group or for a request that names no
    member. Raises GroupError: -1 no member id but an epoch, 25 unknown member, 113 not its epoch."""
    group = consumer_groups(state).get(group_id)
    if group is None or (member_id is None and member_epoch < 0):
        return
    if member_id is None:
        raise GroupError(ErrorCode.unknown_server_error, "A member epoch needs a member id.")
    member = group.member(member_id)
    if member is None:
        raise unknown_member(group_id, member_id)
    _check_epoch(member, member_epoch)


def _check_epoch(member: ConsumerMember, sent: int) -> None:
    known = (member.standing or NO_STANDING).member_epoch
    if sent == known:
        return
    raise _stale(member, f"Expected member epoch {known} but was {sent}.")


def _check_assignment_epochs(state: ShardState, member: ConsumerMember, body: OffsetCommitRequest) -> None:
    """KIP-1251: an older epoch may commit what the member has had since then or longer, assigned or still to
    be revoked. One partition that it has not refuses the whole request (O6)."""
    current = member.current or NOT_JOINED
    sent = body.generation_id_or_member_epoch
    for topic, rows in body.topics:
        image = state.image.topics.get(topic)
        held = {} if image is None else of_topic(current, image.topic_id)
        for partition, *_ in rows:
            place, since = f"{topic}-{partition}", held.get(partition)
            if since is None:
                raise _stale(member, f"Partition {place} is not assigned or pending revocation for member.")
            if sent < since:
                raise _stale(member, f"Epoch {sent} is older than assignment epoch {since} for {place}.")


def _stale(member: ConsumerMember, message: str) -> GroupError:
    assert member.terms is not None
    code = ErrorCode.stale_member_epoch if member.terms.classic is None else ErrorCode.illegal_generation
    return GroupError(code, message)


def describe_groups(state: ShardState, request: Request, now_ms: int) -> Result:
    """ConsumerGroupDescribe. Kafka's Admin falls back to DescribeGroups on GROUP_ID_NOT_FOUND (A12)."""
    body: ConsumerGroupDescribeRequest = request.body
    groups = consumer_groups(state)
    members = sum(groups[each].size for each in body.group_ids if each in groups)
    return begun(_described_groups(state, request), members)


def _described_groups(state: ShardState, request: Request) -> Iterator[Result]:
    """Describe each group as it is when the work comes to it."""
    body: ConsumerGroupDescribeRequest = request.body
    answers = []
    for group_id in body.group_ids:
        answers.append((yield from _described(state, group_id)))
    answer = ConsumerGroupDescribeResponse(tuple(answers))
    only = body.group_ids[0] if len(body.group_ids) == 1 else None
    yield Result((), (Reply(request.token, answer, only),))


def _described(state: ShardState, group_id: str) -> Generator[Result, None, DescribedConsumerGroup]:
    if not group_id:
        return DescribedConsumerGroup(ErrorCode.invalid_group_id, group_id)
    if group_id in consumer_groups(state):
        return (yield from described(state, group_id))
    exists = simple_groups.is_managed(state, group_id) or simple_groups.exists(state, group_id)
    reason = f"Group {group_id} is not a consumer group." if exists else f"Group {group_id} not found."
    return DescribedConsumerGroup(ErrorCode.group_id_not_found, group_id, reason)


def describe(state: ShardState, group_id: str) -> DescribedConsumerGroup:
    """A12, M23. Raises GroupError(group_id_not_found)."""
    return whole(described(state, group_id))


def described(state: ShardState, group_id: str) -> Generator[Result, None, DescribedConsumerGroup]:
    """Describe a group in slices, as it was at the first."""
    group, image = find_group(state, group_id), state.image
    empty = DescribedConsumerGroup(
        error_code=NO_ERROR,
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.votes, state.settings),
        members=(),
    )
    seen = [
        (member_id, metadata, member.current or NOT_JOINED, member.target or EMPTY)
        for member_id, member in group.members.items()
        if (metadata := member.metadata) is not None
    ]
    members: list[DescribedConsumerMember] = []
    for some in sliced(seen):
        members += [_describe_member(each, image) for each in some]
        yield NOTHING
    return empty._replace(members=tuple(members))


_Seen = tuple[str, ConsumerMemberValue, CurrentAssignmentValue, TopicPartitions]
"""A member's id, metadata, assignment and target."""


def _describe_member(seen: _Seen, image: MetadataImage) -> DescribedConsumerMember:
    member_id, metadata, current, target = seen
    return DescribedConsumerMember(
        member_id=member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=current.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        # What it has still to give up is its own until it has (as Kafka shows it).
        assignment=_named(union(current.assigned, current.pending_revocation), image),
        target_assignment=_named(target, image),
        member_type=_CONSUMER_MEMBER if metadata.classic is None else _CLASSIC_MEMBER,
    )


def _named(assignment: TopicPartitions, image: MetadataImage) -> tuple[DescribedTopicPartitions, ...]:
    """Topics that are gone have no name to show and are left out, as in Kafka."""
    topics = image.topics_by_id
    return tuple(
        DescribedTopicPartitions(topic_id, topics[topic_id].name, packed)
        for topic_id, packed in assignment
        if topic_id in topics
    )


def listed(state: ShardState, group_id: str) -> ListedGroup:
    """Return the group's row of ListGroups. Raises GroupError(group_id_not_found)."""
    return ListedGroup(group_id, PROTOCOL_TYPE, find_group(state, group_id).state_name, CONSUMER)


def summary(state: ShardState, group_id: str) -> dict[str, Any]:
    """The group's epochs. Raises GroupError(group_id_not_found)."""
    group = find_group(state, group_id)
    return {
        "state": group.state_name,
        "members": group.size,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
    }


def is_empty(state: ShardState, group_id: str) -> bool:
    """Whether the group exists and has no members."""
    group = consumer_groups(state).get(group_id)
    return group is not None and group.size == 0


def retention(state: ShardState, group_id: str) -> Retention | None:
    """O14: each offset is kept from its commit on, and while its topic is subscribed to."""
    return Retention(None, subscribed_topics(state, group_id))


def subscribed_topics(state: ShardState, group_id: str) -> frozenset[str]:
    """Names that members subscribe to, and what their regexes match; empty for a group that is not there."""
    group = consumer_groups(state).get(group_id)
    if group is None:
        return frozenset()
    return frozenset(subscribed_names(group, regex_topics_of(group)))


def delete_records(state: ShardState, group_id: str) -> list[Record]:
    """Tombstones of the whole group in Kafka's order: all 8, all 7, 6, all 5, all 16, 3; any prefix of
    them can be replayed. Raises GroupError: group_id_not_found, non_empty_group."""
    group = find_group(state, group_id)
    if group.size:
        raise GroupError(ErrorCode.non_empty_group, f"Group {group_id} is not empty.")
    records = [*_tombstones(group, CURRENT_MEMBER_ASSIGNMENT), *_tombstones(group, TARGET_ASSIGNMENT_MEMBER)]
    if group.target_metadata is not None:
        records.append(Record(ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id), None))
    records += _tombstones(group, CONSUMER_MEMBER_METADATA)
    for regex in group.regexes:
        records.append(Record(RegularExpressionKey(REGULAR_EXPRESSION, group_id, regex), None))
    records.append(Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group_id), None))
    return records


def _tombstones(group: ConsumerGroup, kind: int) -> list[Record]:
    return [Record(ConsumerMemberKey(kind, group.group_id, member_id), None) for member_id in group.members]


def forget(state: ShardState, group_id: str) -> None:
    """Drop the timers of a group that is being deleted."""
    group = consumer_groups(state).get(group_id)
    if group is not None:
        forget_regexes(state, group_id)
        end(state, group_id)
        rebalances.drop(state, group_id, CONSUMER)
        for member_id in list(group.members):
            drop_timers(state, group, member_id)
