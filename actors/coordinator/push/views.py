"""Push groups as the rest of the coordinator sees them: describe, list, delete, commit, expire."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.protocols import CONSUMER_PROTOCOL_TYPE
from actors.coordinator.ground.held import Stamp
from actors.coordinator.ground.kind import Retention
from actors.coordinator.ground.partitions import unpack
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.group import EMPTY, STABLE, PushGroup
from actors.coordinator.push.history import RANGE
from actors.coordinator.push.ownership import streams_of, whole
from actors.coordinator.push.state import PUSH, kept, push_groups, stored_of
from actors.ground.contract import Record, Request
from actors.ground.records import PUSH_GROUP, PushConsumerValue, PushGroupKey, PushOwnershipValue
from actors.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    DescribedClassicGroup,
    DescribedClassicMember,
    ListedGroup,
    OffsetCommitRequest,
)
from actors.protocol.transaction_messages import TxnOffsetCommitRequest


def listed(state: ShardState, group_id: str) -> ListedGroup:
    return ListedGroup(group_id, CONSUMER_PROTOCOL_TYPE, push_groups(state)[group_id].state_name, PUSH)


def described(state: ShardState, group_id: str) -> DescribedClassicGroup:
    """The group in the form of the classic protocol: what a consumer is interested in as its subscription,
    and what it owns as its assignment."""
    group, stored = push_groups(state)[group_id], stored_of(state, group_id)
    members = tuple(
        DescribedClassicMember(
            consumer_id,
            None,
            consumer.value.client_id,
            consumer.value.client_host,
            _subscription(consumer.value, state),
            _assignment(stored.ownership.get(consumer_id), state),
        )
        for consumer_id, consumer in group.consumers.items()
    )
    protocol = RANGE if group.state is STABLE else ""
    return DescribedClassicGroup(
        NO_ERROR, group_id, group.state_name, CONSUMER_PROTOCOL_TYPE, protocol, members
    )


def _subscription(value: PushConsumerValue, state: ShardState) -> bytes:
    return write_subscription(Subscription(tuple(sorted(streams_of(value.topic_counts, state.image)))), 0)


def _assignment(value: PushOwnershipValue | None, state: ShardState) -> bytes:
    topics = state.image.topics_by_id
    named = ((topic_id, packed) for topic_id, packed in whole(value) if topic_id in topics)
    return write_assignment(
        Assignment(tuple((topics[topic_id].name, unpack(packed)) for topic_id, packed in named)), 0
    )


def summary(state: ShardState, group_id: str) -> dict[str, Any]:
    """What no Kafka API tells of the group."""
    group = push_groups(state)[group_id]
    consumers = group.consumers.values()
    return {
        "state": group.state_name,
        "members": group.size,
        "epoch": group.epoch,
        "connected": sum(each.channel is not None for each in consumers),
        "started": sum(each.is_started for each in consumers),
        "failed_attempts": group.attempts,
    }


def delete_records(state: ShardState, group_id: str) -> list[Record]:
    """The tombstone of an empty group. Raises NON_EMPTY_GROUP."""
    if push_groups(state)[group_id].consumers:
        raise GroupError(ErrorCode.non_empty_group)
    return [Record(PushGroupKey(PUSH_GROUP, group_id), None)]


def forget(state: ShardState, group_id: str) -> None:
    kept(state).drop_volatile_of(group_id)


# Offsets.


def validate_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """Whether the group takes this OffsetCommit, which is the design's missing commitOffset() (D13): of a
    consumer in the generation in which it was started, or of anybody while there is none.

    Raises UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION.
    """
    body: OffsetCommitRequest = request.body
    group = push_groups(state)[body.group_id]
    _validate(group, body.member_id, body.generation_id_or_member_epoch)


def validate_txn_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """The same for TxnOffsetCommit, where who names nobody is not asked who it is (O7)."""
    body: TxnOffsetCommitRequest = request.body
    if body.member_id or body.generation_id >= 0:
        _validate(push_groups(state)[body.group_id], body.member_id, body.generation_id)


def _validate(group: PushGroup, consumer_id: str, generation: int) -> None:
    if group.state is EMPTY and generation < 0:
        return
    if consumer_id not in group.consumers:
        raise GroupError(ErrorCode.unknown_member_id)
    if generation != group.epoch:
        raise GroupError(ErrorCode.illegal_generation)


def validate_fetch(state: ShardState, group_id: str, member_id: str | None, member_epoch: int) -> None:
    """Anybody may fetch, as from a classic group (O11)."""


def subscribed_topics(state: ShardState, group_id: str) -> Collection[str] | None:
    """The topics that consumers are interested in: their offsets are in use (O12)."""
    counts = {each.value.topic_counts for each in push_groups(state)[group_id].consumers.values()}
    return {topic for each in counts for topic in streams_of(each, state.image)}


def retention(state: ShardState, group_id: str) -> Retention | None:
    """O14: offsets of an Empty group are kept from when it became so, others while a consumer is interested
    in their topic."""
    group = push_groups(state)[group_id]
    if group.state is EMPTY:
        return Retention(group.since_ms, ())
    return Retention(None, subscribed_topics(state, group_id) or ())


def is_unused(state: ShardState, group_id: str) -> bool:
    return not push_groups(state)[group_id].consumers


def stamp(state: ShardState, group_id: str, now_ms: int) -> Stamp:
    """No heartbeat of a push group is ever held: it has none."""
    group = push_groups(state)[group_id]
    return Stamp((group.state, group.epoch), False)
