"""Reconciliation of one member with its target (KIP-848; rows M11 to M15): set algebra on assignments.

A member first gives up what the target takes from it and keeps its epoch until it has acknowledged so;
then it moves to the target's epoch and gets what nobody else holds; what others still hold comes as they
let go. No member waits for all others.
"""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.model import assignment_epochs
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.member import STABLE, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS
from actors.coordinator.ground import partitions
from actors.ground.records import CurrentAssignmentValue, TopicPartitions
from actors.protocol.errors import GroupError


class Goal(NamedTuple):
    """Where the member is to go."""

    epoch: int
    """The epoch of the target assignment."""
    target: TopicPartitions
    subscribed: frozenset[bytes]
    """Topic ids the member subscribes to now, perhaps newer than the target (M14)."""
    subscription_changed: bool


def reconcile(
    current: CurrentAssignmentValue, goal: Goal, owned: TopicPartitions | None, group: ConsumerGroup
) -> CurrentAssignmentValue:
    """The member's next current assignment; `current` itself if nothing moves.

    `owned` is what the member says it owns, None if it did not say. Raises
    GroupError(fenced_member_epoch) for a member in a state of a newer version that owns anything (M15).
    """
    if current.state == STABLE:
        if current.member_epoch != goal.epoch:
            return _advance(current, goal, owned, group)
        return _drop_unsubscribed(current, goal, owned) if goal.subscription_changed else current
    if current.state == UNREVOKED_PARTITIONS:
        if _owns(owned, current.pending_revocation):
            return _drop_unsubscribed(current, goal, owned) if goal.subscription_changed else current
        return _advance(current, goal, owned, group)
    if current.state == UNRELEASED_PARTITIONS:
        return _advance(current, goal, owned, group)
    if owned is None or owned:
        raise GroupError(
            ErrorCode.fenced_member_epoch,
            "The consumer group member is in a unknown state. The member must abandon all its partitions"
            " and rejoin.",
        )
    return _advance(assignment_epochs.at_epoch(current, goal.epoch), goal, owned, group)


def _advance(
    current: CurrentAssignmentValue, goal: Goal, owned: TopicPartitions | None, group: ConsumerGroup
) -> CurrentAssignmentValue:
    target = goal.target
    if any(topic_id not in goal.subscribed for topic_id, _ in target):
        target = tuple(pair for pair in target if pair[0] in goal.subscribed)
    kept = partitions.intersection(current.assigned, target)
    revoked = partitions.difference(current.assigned, kept)
    if revoked and _owns(owned, revoked):
        return _moved(current, current.member_epoch, UNREVOKED_PARTITIONS, kept, revoked)
    free, unreleased = _free(partitions.difference(target, kept), current.pending_revocation, group)
    state = UNRELEASED_PARTITIONS if unreleased else STABLE
    assigned = partitions.union(kept, free) if unreleased else target
    return _moved(current, goal.epoch, state, assigned, partitions.EMPTY)


def _drop_unsubscribed(
    current: CurrentAssignmentValue, goal: Goal, owned: TopicPartitions | None
) -> CurrentAssignmentValue:
    """M14: topics no longer subscribed are revoked at once, before a new target exists."""
    unsubscribed = tuple(pair for pair in current.assigned if pair[0] not in goal.subscribed)
    if not unsubscribed:
        return current
    kept = tuple(pair for pair in current.assigned if pair[0] in goal.subscribed)
    pending = partitions.union(current.pending_revocation, unsubscribed)
    if _owns(owned, pending):
        return _moved(current, current.member_epoch, UNREVOKED_PARTITIONS, kept, pending)
    return _moved(current, current.member_epoch, current.state, kept, current.pending_revocation)


def _owns(owned: TopicPartitions | None, revoked: TopicPartitions) -> bool:
    """M11: a member that does not say what it owns counts as owning."""
    return owned is None or partitions.overlaps(owned, revoked)


def _free(
    wanted: TopicPartitions, own_pending: TopicPartitions, group: ConsumerGroup
) -> tuple[TopicPartitions, bool]:
    """What of `wanted` nobody else holds, and whether anything is held. M13: what this very member still
    has to revoke is not held by another."""
    free: list[tuple[bytes, bytes]] = []
    withheld = False
    for topic_id, packed in wanted:
        if topic_id not in group.holders:
            free.append((topic_id, packed))
            continue
        own = _of_topic(own_pending, topic_id)
        numbers = partitions.unpack(packed)
        available = [p for p in numbers if p in own or not group.is_held(topic_id, p)]
        if len(available) == len(numbers):
            free.append((topic_id, packed))
            continue
        withheld = True
        if available:
            free.append((topic_id, partitions.pack(available)))
    return tuple(free), withheld


def _of_topic(assignment: TopicPartitions, topic_id: bytes) -> frozenset[int]:
    for other_id, packed in assignment:
        if other_id == topic_id:
            return frozenset(partitions.unpack(packed))
    return frozenset()


def _moved(
    current: CurrentAssignmentValue,
    epoch: int,
    state: int,
    assigned: TopicPartitions,
    pending_revocation: TopicPartitions,
) -> CurrentAssignmentValue:
    """The previous epoch becomes the present one even where the epoch stays, as in Kafka: a late request
    of an older epoch must not count as the acknowledgement of this revocation, nor be taken for the retry of
    a member that has been heard at its present epoch while it waits (M4)."""
    moved = assignment_epochs.carried(
        current,
        CurrentAssignmentValue(epoch, current.member_epoch, state, assigned, pending_revocation),
        epoch,
    )
    return current if moved == current else moved
