"""Whether a heartbeat has nothing to tell its member, so that its answer may wait for news.

Reads only. A member is settled if the same heartbeat, decided again, would be answered by nothing new: it
is where its group is, and owes the group nothing. A newcomer counts as settled while others hold all that is
to be its own: its first answer, that it has nothing, may wait for them.

What may unsettle a member are records and events of its group (see `actors.leader.held_heartbeats`), a new
metadata image, and the two things that only time shows: the end of the assignment interval
(`Stamp.is_assigning`) and partitions that others let go (`Settled.waits`).

`consumer` answers a steady heartbeat by a shorter way than any other: its member is a settled one that waits
for nothing. What both have to look at besides epochs and partitions is `is_as_checked`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.coordinator.classic.group import STABLE as CLASSIC_STABLE
from actors.coordinator.consumer.group import STABLE, UNRELEASED_PARTITIONS, ConsumerGroup
from actors.coordinator.consumer.target import is_interval_over
from actors.coordinator.ground import partitions
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request
from actors.ground.records import ConsumerMemberValue, CurrentAssignmentValue, TopicPartitions
from actors.protocol.api_keys import HEARTBEAT
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, HeartbeatRequest


class Settled(NamedTuple):
    """What is to be known of a settled member."""

    session_timeout_ms: int
    waits: bool
    """For partitions that other members hold."""


class Stamp(NamedTuple):
    """Of a group: while it is the same, none of its members is unsettled, unless by a record or an event of
    its own."""

    position: tuple[Any, ...]
    is_assigning: bool
    """The next target is due when the assignment interval is over; nothing but the time will say so."""


def settled(
    state: ShardState, request: Request, owned: TopicPartitions | None, now_ms: int
) -> Settled | None:
    """What is to be known of the member that heartbeats; None if it is not settled. `owned`: what it last
    said that it owns, None if that is not known."""
    if request.api_key == HEARTBEAT:
        return _classic(state, request.body)
    return _consumer(state, request.body, owned, now_ms)


def stamp(state: ShardState, group_id: str, now_ms: int) -> Stamp | None:
    """None: there is no such group."""
    live = state.classic.get(group_id)
    if live is not None:
        return Stamp((live.state, live.generation), False)
    group = state.consumer.get(group_id)
    if group is None:
        return None
    is_late = group.group_epoch > group.assignment_epoch
    is_due = is_late and is_interval_over(state, group, now_ms)
    version = state.image.version
    unchecked_version = None if group.checked_image_version == version else version
    return Stamp((group.assignment_epoch, unchecked_version, is_due), is_late and not is_due)


def is_as_checked(
    state: ShardState, group: ConsumerGroup, metadata: ConsumerMemberValue, instance_id: str | None
) -> bool:
    """Whether the group has been looked at with the present image, and the member is one of KIP-848 that
    gives its own instance id or none."""
    return (
        group.checked_image_version == state.image.version
        and metadata.classic is None
        and (instance_id is None or instance_id == metadata.instance_id)
    )


def _classic(state: ShardState, body: HeartbeatRequest) -> Settled | None:
    group = state.classic.get(body.group_id)
    if group is None or group.state is not CLASSIC_STABLE or body.generation_id != group.generation:
        return None
    member = group.members.get(body.member_id)
    if member is None or body.member_id in group.pending_syncs:
        return None
    instance_id = body.group_instance_id
    if instance_id is not None and group.static_members.get(instance_id) != body.member_id:
        return None
    return Settled(member.session_timeout_ms, False)


def _consumer(
    state: ShardState, body: ConsumerGroupHeartbeatRequest, owned: TopicPartitions | None, now_ms: int
) -> Settled | None:
    group = state.consumer.get(body.group_id)
    member = None if group is None else group.members.get(body.member_id)
    if group is None or member is None or member.metadata is None or member.current is None:
        return None
    metadata, current, epoch = member.metadata, member.current, body.member_epoch
    is_joining = epoch == 0 and metadata.instance_id is None
    if (
        current.member_epoch != group.assignment_epoch
        or not (is_joining or 0 < epoch == current.member_epoch)
        or not is_as_checked(state, group, metadata, body.instance_id)
        or (group.group_epoch > group.assignment_epoch and is_interval_over(state, group, now_ms))
        or current.assigned != (owned or partitions.EMPTY)
    ):
        return None
    waits = current.state == UNRELEASED_PARTITIONS
    if waits:
        if not _is_withheld(group, current, member.target):
            return None
    elif current.state != STABLE or is_joining:
        return None
    return Settled(group.settings.session_timeout_ms, waits)


def _is_withheld(
    group: ConsumerGroup, current: CurrentAssignmentValue, target: TopicPartitions | None
) -> bool:
    """Whether others hold all that the member still has to get."""
    for topic_id, packed in partitions.difference(target or partitions.EMPTY, current.assigned):
        if not all(group.is_held(topic_id, partition) for partition in partitions.unpack(packed)):
            return False
    return True
