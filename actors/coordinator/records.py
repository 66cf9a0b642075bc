"""The coordinator's replicated records: Kafka's own record types (features.md section 4) as NamedTuples.

A key is `(kind, group_id, ...)`; `kind` is the type that Kafka writes in `__consumer_offsets`. Classic
groups differ on purpose: one GroupMetadata record and one record per member, so that no big group makes
a record too large (features.md section 8, complaint 20). Everything is str, int, bytes, None or tuples
of these: msgpack carries it as it is.
"""

from __future__ import annotations

from typing import NamedTuple

OFFSET_COMMIT = 1
GROUP_METADATA = 2
CONSUMER_GROUP_METADATA = 3
CONSUMER_MEMBER_METADATA = 5
TARGET_ASSIGNMENT_METADATA = 6
TARGET_ASSIGNMENT_MEMBER = 7
CURRENT_MEMBER_ASSIGNMENT = 8
REGULAR_EXPRESSION = 16
CLASSIC_MEMBER = 102
"""Ours: one member of a classic group (Kafka keeps them all inside GROUP_METADATA)."""

TopicPartitions = tuple[tuple[bytes, bytes], ...]
"""An assignment: pairs (topic id, partitions), sorted by topic id, no topic twice and none empty.
`topic id` is 16 bytes. `partitions` is an ascending int32 array, big-endian, as it stands on the wire
(`numpy.frombuffer(partitions, '>i4')`; 4 bytes a partition), without a length prefix."""


class OffsetCommitKey(NamedTuple):
    kind: int
    group_id: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A committed offset (O17)."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """-1 unless the commit itself named a retention (O5)."""
    topic_id: bytes
    """16 bytes; zeros if the topic's id was not known."""


class GroupMetadataKey(NamedTuple):
    kind: int
    group_id: str


class GroupMetadataValue(NamedTuple):
    """A classic group as it last was Stable or Empty (C26). A simple group has protocol_type ""."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    current_state_timestamp_ms: int


class ClassicMemberKey(NamedTuple):
    kind: int
    group_id: str
    member_id: str


class ClassicMemberValue(NamedTuple):
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in the member's order of preference."""
    assignment: bytes


class ConsumerGroupKey(NamedTuple):
    """Key of CONSUMER_GROUP_METADATA and of TARGET_ASSIGNMENT_METADATA."""

    kind: int
    group_id: str


class ConsumerGroupValue(NamedTuple):
    group_epoch: int
    metadata_hash: int


class TargetMetadataValue(NamedTuple):
    assignment_epoch: int
    assignment_timestamp_ms: int


class ConsumerMemberKey(NamedTuple):
    """Key of CONSUMER_MEMBER_METADATA, TARGET_ASSIGNMENT_MEMBER and CURRENT_MEMBER_ASSIGNMENT."""

    kind: int
    group_id: str
    member_id: str


class ConsumerMemberValue(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    """Sorted, without repetition."""
    subscribed_topic_regex: str
    """"" for none."""
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: tuple[object, ...] | None = None
    """(session_timeout_ms, protocols) of a member that speaks the classic protocol (G3), else None."""


class TargetMemberValue(NamedTuple):
    topic_partitions: TopicPartitions


class CurrentAssignmentValue(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: int
    """STABLE 0, UNREVOKED_PARTITIONS 1, UNRELEASED_PARTITIONS 2, as Kafka numbers them."""
    assigned: TopicPartitions
    pending_revocation: TopicPartitions


class RegularExpressionKey(NamedTuple):
    kind: int
    group_id: str
    regex: str


class RegularExpressionValue(NamedTuple):
    topics: tuple[str, ...]
    image_version: int
    timestamp_ms: int


RECORD_TYPES: dict[int, tuple[type[tuple[object, ...]], type[tuple[object, ...]]]] = {
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    CONSUMER_GROUP_METADATA: (ConsumerGroupKey, ConsumerGroupValue),
    CONSUMER_MEMBER_METADATA: (ConsumerMemberKey, ConsumerMemberValue),
    TARGET_ASSIGNMENT_METADATA: (ConsumerGroupKey, TargetMetadataValue),
    TARGET_ASSIGNMENT_MEMBER: (ConsumerMemberKey, TargetMemberValue),
    CURRENT_MEMBER_ASSIGNMENT: (ConsumerMemberKey, CurrentAssignmentValue),
    REGULAR_EXPRESSION: (RegularExpressionKey, RegularExpressionValue),
    CLASSIC_MEMBER: (ClassicMemberKey, ClassicMemberValue),
}
"""kind -> (key class, value class): how a record that travelled as plain tuples gets its names back."""
