"""The target assignment of a consumer group: when it is computed, how, and what is written (M7 to M10)."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from actors.assignors.registry import ASSIGNORS
from actors.assignors.spec import AssignmentSpec, MemberSpec
from actors.contract import Record
from actors.coordinator import partitions
from actors.coordinator.consumer_events import AssignmentComputed
from actors.coordinator.consumer_metadata import subscribed_topic_ids
from actors.coordinator.consumer_state import ConsumerGroup
from actors.coordinator.consumer_turn import Turn
from actors.coordinator.records import (
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupKey,
    ConsumerMemberKey,
    TargetMemberValue,
    TargetMetadataValue,
    TopicPartitions,
)
from actors.coordinator.settings import GroupSettings
from actors.protocol.errors import GroupError


def update_target(turn: Turn) -> None:
    """Compute a new target if the group epoch is ahead and the assignment interval is over (M8).

    Until then members keep the old target: joins and leaves in between are taken together. Raises
    GroupError(unknown_server_error) if the assignor fails (M9).
    """
    if turn.assignment_epoch >= turn.group_epoch or not _is_due(turn):
        return
    assignor = preferred_assignor(_votes(turn), turn.state.settings)
    try:
        assignment = ASSIGNORS[assignor](_spec(turn))
    except (KeyError, ValueError, IndexError) as error:
        raise GroupError(
            ErrorCode.unknown_server_error, f"Failed to compute a new target assignment: {error!r}"
        ) from error
    group_id, changed = turn.group.group_id, 0
    for member_id, target in assignment.items():
        if target != _target_so_far(turn, member_id):
            changed += 1
            key = ConsumerMemberKey(TARGET_ASSIGNMENT_MEMBER, group_id, member_id)
            turn.records.append(Record(key, TargetMemberValue(target)))
    key_of_all = ConsumerGroupKey(TARGET_ASSIGNMENT_METADATA, group_id)
    turn.records.append(Record(key_of_all, TargetMetadataValue(turn.group_epoch, turn.now_ms)))
    turn.assignment_epoch = turn.group_epoch
    turn.target = assignment[turn.member_id]
    turn.events.append(
        AssignmentComputed(group_id, turn.group_epoch, assignor, len(assignment), changed, turn.now_ms)
    )


def preferred_assignor(votes: Mapping[str, int], settings: GroupSettings) -> str:
    """M7: the name most members ask for, the first configured one if none does; of equals the one
    configured first."""
    names = settings.group_consumer_assignors
    return max(names, key=lambda name: (votes.get(name, 0), -names.index(name)))


def _is_due(turn: Turn) -> bool:
    last = turn.group.target_metadata
    interval_ms = turn.state.settings.group_consumer_assignment_interval_ms
    if last is None or interval_ms <= 0:
        return True
    since_ms = turn.now_ms - last.assignment_timestamp_ms
    # A leader whose clock is behind its predecessor's must not wait for it to catch up.
    return since_ms >= interval_ms or since_ms < 0


def _votes(turn: Turn) -> Mapping[str, int]:
    old, new = turn.previous.server_assignor, turn.metadata.server_assignor
    if old == new:
        return turn.group.votes
    votes = dict(turn.group.votes)
    if old is not None:
        votes[old] = votes.get(old, 0) - 1
    if new is not None:
        votes[new] = votes.get(new, 0) + 1
    return votes


def _target_so_far(turn: Turn, member_id: str) -> TopicPartitions | None:
    if member_id == turn.member_id:
        return turn.target
    return turn.group.members[member_id].target


def _spec(turn: Turn) -> AssignmentSpec:
    image = turn.state.image
    subject = MemberSpec(
        turn.member_id, turn.metadata.instance_id, turn.topic_ids, turn.target or partitions.EMPTY
    )
    members = [subject, *_others(turn.group, turn)]
    topic_ids = frozenset().union(*{member.topic_ids for member in members})
    counts = {topic_id: image.topics_by_id[topic_id].partition_count for topic_id in topic_ids}
    return AssignmentSpec(tuple(members), counts)


def _others(group: ConsumerGroup, turn: Turn) -> list[MemberSpec]:
    image, regex_topics = turn.state.image, turn.regex_topics
    topic_ids = {
        key: subscribed_topic_ids(subscription, regex_topics, image)
        for key, subscription in group.subscriptions.items()
    }
    others: list[MemberSpec] = []
    for member_id, member in group.members.items():
        metadata = member.metadata
        if metadata is None or member_id in (turn.member_id, turn.replaced_id):
            continue
        assert member.subscription is not None
        others.append(
            MemberSpec(
                member_id,
                metadata.instance_id,
                topic_ids[member.subscription.key],
                member.target or partitions.EMPTY,
            )
        )
    return others
