"""Heartbeats of KIP-848 members whose answers may wait for news.

`heartbeat` answers a steady heartbeat by a shorter way than any other: its member is a settled one that waits
for nothing. What both have to look at besides epochs and partitions is `is_as_checked`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.heartbeat import WAITING_HEARTBEAT_INTERVAL_MS, is_as_checked, steady
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.member import STABLE, UNRELEASED_PARTITIONS, ConsumerMember
from actors.coordinator.consumer.model.member import session_key as session_key_of
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.consumer.target import is_interval_over
from actors.coordinator.ground import partitions
from actors.coordinator.ground.held import (
    HOLD_SHARE,
    Beats,
    HeldApi,
    Settled,
    Stamp,
    hold_ms_max,
)
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request
from actors.ground.records import TopicPartitions
from actors.protocol.messages import ConsumerGroupHeartbeatRequest


def settled(
    state: ShardState, request: Request, owned: TopicPartitions | None, now_ms: int
) -> Settled | None:
    """A member is settled if it has what the target gives it, or waits for no more than others still hold."""
    body: ConsumerGroupHeartbeatRequest = request.body
    group = consumer_groups(state).get(body.group_id)
    member = None if group is None else group.members.get(body.member_id)
    if group is None or member is None or member.standing is None:
        return None
    standing, epoch = member.standing, body.member_epoch
    is_joining = epoch == 0 and member.instance_id is None
    if (
        standing.member_epoch != group.assignment_epoch
        or not (is_joining or 0 < epoch == standing.member_epoch)
        or not is_as_checked(state, group, member, body.instance_id)
        or (group.group_epoch > group.assignment_epoch and is_interval_over(state, group, now_ms))
        or member.assigned != (owned or partitions.EMPTY)
    ):
        return None
    waits = standing.state == UNRELEASED_PARTITIONS
    if waits:
        if not _is_withheld(group, member):
            return None
    elif standing.state != STABLE or is_joining:
        return None
    return Settled(group.settings.session_timeout_ms, waits)


def _is_withheld(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether others hold all that the member still has to get."""
    for topic_id, packed in partitions.difference(member.target or partitions.EMPTY, member.assigned):
        if not all(group.is_held(topic_id, partition) for partition in partitions.unpack(packed)):
            return False
    return True


def stamp(state: ShardState, group_id: str, now_ms: int) -> Stamp:
    """The target's epoch, whether a new image is yet to be looked at, and whether a new target is due."""
    group = consumer_groups(state)[group_id]
    is_late = group.group_epoch > group.assignment_epoch
    is_due = is_late and is_interval_over(state, group, now_ms)
    version = state.image.version
    unchecked_version = None if group.checked_image_version == version else version
    return Stamp((group.assignment_epoch, unchecked_version, is_due), is_late and not is_due)


def owned(request: Request) -> TopicPartitions | None:
    body: ConsumerGroupHeartbeatRequest = request.body
    return body.topic_partitions


def says_nothing(request: Request, response: Any, beats: Beats) -> bool:
    body: ConsumerGroupHeartbeatRequest = request.body
    if not body.member_epoch:
        return bool(
            response.error_code == ErrorCode.none and not response.assignment and response.client is None
        )
    return bool(
        response.error_code == ErrorCode.none
        and response.assignment is None
        and response.client is None
        and response.member_epoch == body.member_epoch
        and response.heartbeat_interval_ms == beats.told_ms
    )


def hold_ms(request: Request, found: Settled, beats: Beats) -> int:
    """The answer is held for a share of the interval that the member was last told; a newcomer counts as told
    what those are told who wait."""
    body: ConsumerGroupHeartbeatRequest = request.body
    interval_ms = beats.told_ms if body.member_epoch else WAITING_HEARTBEAT_INTERVAL_MS
    return min(int(interval_ms * HOLD_SHARE), hold_ms_max(found.session_timeout_ms, interval_ms))


def session_key(request: Request) -> Hashable:
    body: ConsumerGroupHeartbeatRequest = request.body
    return session_key_of(body.group_id, body.member_id)


def repeats(state: ShardState, request: Request, now_ms: int) -> int | None:
    """A steady member's heartbeats are answered alike. Its session ends when it would have ended."""
    group = consumer_groups(state).get(request.body.group_id)
    key, timers = session_key(request), state.timers
    ends_ms = timers.deadline_ms(key)
    if group is None or steady(state, group, request, now_ms) is None:
        return None
    if ends_ms is not None:
        timers.schedule(key, ends_ms)
    return group.settings.session_timeout_ms


HELD = HeldApi(
    settled=settled,
    owned=owned,
    says_nothing=says_nothing,
    hold_ms=hold_ms,
    session_key=session_key,
    repeats=repeats,
)
