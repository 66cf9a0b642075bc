"""A consumer group of classic members becomes a classic group again (G7): its generation is the group epoch.

That happens when the last member of the consumer protocol leaves, is removed, or is replaced by a classic
static member. Each member's assignment is its target, in the bytes that its own client reads.
"""

from __future__ import annotations

from collections.abc import Collection

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.group import STABLE, ClassicGroup, ClassicMember
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.protocols import CONSUMER_PROTOCOL_TYPE
from actors.coordinator.classic.rebalance import arm_session
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.consumer.migration.policy import allows_downgrade
from actors.coordinator.consumer.model import apply as consumer_apply
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.ground.partitions import EMPTY, unpack
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CONSUMER
from actors.coordinator.told.rebalances import drop as drop_rebalance
from actors.ground.contract import Record
from actors.ground.image import MetadataImage
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    ClassicMemberValue,
    ConsumerGroupKey,
    ConsumerMemberValue,
    TopicPartitions,
)
from actors.protocol.consumer_protocol import Assignment, read_version, write_assignment
from actors.protocol.errors import MalformedRequest


def is_due(state: ShardState, group: ConsumerGroup, gone: Collection[str], joining: int = 0) -> bool:
    """Whether the group becomes a classic one when the members `gone` go and `joining` classic ones come:
    somebody stays, all who stay speak the classic protocol, and policy and size allow it."""
    size = group.size - len(gone) + joining
    if not 0 < size <= state.settings.group_max_size or not allows_downgrade(state.settings):
        return False
    return all(
        member.terms is None or member.terms.classic is not None or member_id in gone
        for member_id, member in group.members.items()
    )


def classic_twin(
    outcome: Outcome, group: ConsumerGroup, gone: Collection[str], joining: ClassicMember | None = None
) -> ClassicGroup:
    """The classic group, Stable, that the group becomes without the members `gone`. What a member that is
    `joining` is assigned, the caller fills in. Nothing is changed yet."""
    image = outcome.state.image
    live = ClassicGroup(group.group_id, outcome.now_ms)
    live.protocol_type = CONSUMER_PROTOCOL_TYPE
    live.generation = group.group_epoch
    targets: dict[str, TopicPartitions] = {}
    for member_id, member in group.members.items():
        metadata = member.metadata
        if metadata is not None and member_id not in gone:
            live.add(_classic_member(group.group_id, member_id, metadata))
            targets[member_id] = member.target or EMPTY
    if joining is not None:
        live.add(joining)
    live.protocol_name = live.select_protocol()
    for member_id, target in targets.items():
        classic = live.members[member_id]
        classic.assignment = assignment_bytes(target, classic.metadata(live.protocol_name), image)
    live.state = live.previous_state = STABLE
    live.learn_subscribed_topics()
    return live


def take_over(outcome: Outcome, group: ConsumerGroup, live: ClassicGroup, *, rebalances: bool) -> None:
    """Let `live` take the consumer group's place. The caller has dropped the consumer members' timers, and
    begins the rebalance, if one is due, right after.

    Then the stored group has no leader: a next leader of the partition that finds it so begins the rebalance
    again, for what the gone members had is assigned to nobody.
    """
    state, group_id = outcome.state, group.group_id
    drop_rebalance(state, group_id, CONSUMER)
    leader = live.leader
    if rebalances:
        live.leader = None
    outcome.records += classic_store.generation_records(state, live)
    live.leader = leader
    # From this record on the group is a classic one.
    outcome.records.append(Record(ConsumerGroupKey(CONSUMER_GROUP_METADATA, group_id), None))
    outcome.records += tombstones(group)
    classic_groups(state)[group_id] = live
    for member in live.members.values():
        arm_session(outcome, member)


def tombstones(group: ConsumerGroup) -> list[Record]:
    """Tombstones for every record of the group but its metadata."""
    return [
        Record(record.key, None)
        for record in consumer_apply.group_records(group)
        if record.key[0] != CONSUMER_GROUP_METADATA
    ]


def assignment_bytes(target: TopicPartitions, metadata: bytes, image: MetadataImage) -> bytes:
    """An assignment as ConsumerProtocolAssignment, in the version of the member's own `metadata`, or the
    oldest if that has none. Topics that are no more are left out."""
    topics = tuple(
        (image.topics_by_id[topic_id].name, unpack(packed))
        for topic_id, packed in target
        if topic_id in image.topics_by_id
    )
    try:
        version = read_version(metadata)
    except MalformedRequest:
        version = 0
    return write_assignment(Assignment(topics), version)


def _classic_member(group_id: str, member_id: str, metadata: ConsumerMemberValue) -> ClassicMember:
    assert metadata.classic is not None, (group_id, member_id)
    session_timeout_ms, protocols = metadata.classic
    value = ClassicMemberValue(
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
        b"",
    )
    return ClassicMember(group_id, member_id, value)
