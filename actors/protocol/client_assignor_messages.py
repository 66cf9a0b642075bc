"""Requests and answers of groups whose members assign (A4, A7, A9, A10), free of wire versions.

`actors.protocol.client_assignor_codec` turns bytes into these and back.
"""

from typing import Final, NamedTuple

from actors.ground.records import TopicPartitions

INVALID_ASSIGNMENT: Final = 20_000
"""The error of an assignment that does not fit what it was computed from. KIP-848 names it, and Kafka never
gave it a number: this one stands in answers of our own requests alone."""
NO_METADATA_VERSION: Final = -1


class ClientSide(NamedTuple):
    """What the answer to a heartbeat says to a member that brought assignors, beside what Kafka says."""

    should_compute: bool = False
    """Whether the member is to compute the group's assignment."""
    error: int = 0
    """What the assignor said of the member, 0 for nothing."""
    pending: TopicPartitions = ()
    """The partitions that the member is to have once others have let go of them."""
    metadata_version: int = NO_METADATA_VERSION
    metadata: bytes | None = None
    """What the assignor has for the member; None: nothing."""


class PrepareAssignmentRequest(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int


class PreparedMember(NamedTuple):
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]
    """The subscribed topics that exist."""
    reason: int
    metadata_version: int
    metadata: bytes
    target: TopicPartitions


class PreparedTopic(NamedTuple):
    topic_id: bytes
    name: str
    partition_count: int
    racks: tuple[str, ...]
    """The rack of each partition, "" for one that has none; (): no partition has one."""


class PrepareAssignmentResponse(NamedTuple):
    """A group as it is at one epoch, and the name of the assignor that is to assign it."""

    error_code: int
    error_message: str | None = None
    group_epoch: int = 0
    assignor: str = ""
    members: tuple[PreparedMember, ...] = ()
    topics: tuple[PreparedTopic, ...] = ()


class InstalledMember(NamedTuple):
    member_id: str
    error: int
    topic_partitions: tuple[tuple[bytes, tuple[int, ...]], ...]
    """What the member is to have, as it came: topics and partitions may be named twice."""
    metadata_version: int
    metadata: bytes


class InstallAssignmentRequest(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    group_epoch: int
    """The epoch of the group that was handed out."""
    error: int
    """0, or any other number if the assignor failed; then there are no members."""
    error_message: str | None
    members: tuple[InstalledMember, ...]


class InstallAssignmentResponse(NamedTuple):
    error_code: int
    error_message: str | None = None
