"""The group APIs' requests and responses, free of wire versions: what the pure coordinator speaks.

Field names are those of Kafka's message schemas in snake case, with units. One class serves all versions
of an API: a field that a version lacks has the schema's default; where behaviour depends on the version,
`Request.api_version` tells. `actors.catalog.codec` turns bytes into these and back.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.records import ClientAssignor, TopicPartitions
from actors.protocol.client_assignor_messages import ClientSide

NO_ERROR = ErrorCode.none
NO_AUTHORIZED_OPERATIONS = -(2**31)


class JoinGroupRequest(NamedTuple):
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """How long the member may take to join again; it is the session timeout if the version has no such field
    (C4)."""
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str | None = None


class JoinGroupResponse(NamedTuple):
    error_code: ErrorCode
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    """The protocol that the group has chosen. None becomes "" if the version has no null (below 7)."""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """The members, for the leader only: (member id, group instance id, metadata) of each."""


class SyncGroupRequest(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]
    """What the leader assigns, and no other member sends: (member id, assignment) of each member."""


class SyncGroupResponse(NamedTuple):
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatResponse(NamedTuple):
    error_code: ErrorCode


class LeavingMember(NamedTuple):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(NamedTuple):
    group_id: str
    members: tuple[LeavingMember, ...]
    """The members that leave; exactly one below version 3."""


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


class LeaveGroupResponse(NamedTuple):
    """The answer to LeaveGroup. Below version 3 the encoder lifts the single member's error to the top
    (W7)."""

    error_code: ErrorCode
    members: tuple[LeftMember, ...] = ()


class CommittedPartition(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


CommittedRow = tuple[int, int, int, str | None]
"""The fields of a CommittedPartition: plain tuples are made many at once, in a third of the time."""


class OffsetCommitRequest(NamedTuple):
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    """How long the offsets are to be kept, in ms; -1 unless a request of version 2 to 4 names a time (O5)."""
    topics: tuple[tuple[str, Sequence[CommittedRow]], ...]
    topic_ids: tuple[bytes, ...] | None = None
    """The id of each of `topics`, whose names are "" then: version 10 names topics by id."""
    known: Any = None
    """What is remembered of commits that differ from this one in offsets and leader epochs alone
    (`actors.coordinator.offsets.known`); None: nothing."""


class OffsetCommitResponse(NamedTuple):
    """The answer to OffsetCommit. No top-level error exists: a request-wide error stands on each
    partition."""

    topics: tuple[tuple[str, Sequence[tuple[int, ErrorCode]]], ...]
    """The error of each partition: (topic, ((partition, error), ...)) of each topic."""
    topic_ids: tuple[bytes, ...] | None = None
    """The id of each of `topics`, in version 10."""


class OffsetFetchGroup(NamedTuple):
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    """The topics and partitions that are asked for; None: every topic that has a committed offset (version 2
    and later)."""
    member_id: str | None = None
    member_epoch: int = -1
    topic_ids: tuple[bytes, ...] | None = None
    """The id of each of `topics`, whose names are "" then: version 10 names topics by id."""


class OffsetFetchRequest(NamedTuple):
    groups: tuple[OffsetFetchGroup, ...]
    """The groups that are asked for; exactly one below version 8."""
    require_stable: bool = False
    known: Any = None
    """What is remembered of fetches that are the same (`actors.coordinator.offsets.known_fetches`); None:
    nothing."""


class FetchedOffset(NamedTuple):
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = NO_ERROR


FetchedRow = tuple[int, int, int, str, ErrorCode]
"""The fields of a FetchedOffset as a plain tuple, for the same reason as CommittedRow."""


class FetchedGroup(NamedTuple):
    group_id: str
    topics: tuple[tuple[str, Sequence[FetchedRow]], ...]
    error_code: ErrorCode = NO_ERROR
    """The group's error. Version 1 has no place for it: the encoder puts it on each partition (W6)."""
    topic_ids: tuple[bytes, ...] | None = None
    """The id of each of `topics`, in version 10."""


class OffsetFetchResponse(NamedTuple):
    groups: tuple[FetchedGroup, ...]


class OffsetDeleteRequest(NamedTuple):
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class OffsetDeleteResponse(NamedTuple):
    error_code: ErrorCode
    topics: tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...] = ()


class DescribeGroupsRequest(NamedTuple):
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedClassicMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedClassicGroup(NamedTuple):
    error_code: ErrorCode
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedClassicMember, ...] = ()
    error_message: str | None = None
    authorized_operations: int = NO_AUTHORIZED_OPERATIONS


class DescribeGroupsResponse(NamedTuple):
    groups: tuple[DescribedClassicGroup, ...]


class ListGroupsRequest(NamedTuple):
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str
    """The group's type: "classic" or "consumer"."""


class ListGroupsResponse(NamedTuple):
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


class DeleteGroupsRequest(NamedTuple):
    groups_names: tuple[str, ...]


class DeleteGroupsResponse(NamedTuple):
    results: tuple[tuple[str, ErrorCode], ...]


class ConsumerGroupHeartbeatRequest(NamedTuple):
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: TopicPartitions | None = None
    """The partitions that the member says it owns (sorted and packed by the decoder); None: unchanged."""
    client_assignors: tuple[ClientAssignor, ...] | None = None
    """The assignors that the member can run, in its order of preference (A4); None: unchanged."""


class ConsumerGroupHeartbeatResponse(NamedTuple):
    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicPartitions | None = None
    """The member's new assignment; None: unchanged."""
    client: ClientSide | None = None
    """What a member that brought assignors is told besides (A7); None: nothing."""


class ConsumerGroupDescribeRequest(NamedTuple):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedTopicPartitions(NamedTuple):
    topic_id: bytes
    topic_name: str
    partitions: bytes
    """The partitions as big-endian int32, as in TopicPartitions."""


class DescribedConsumerMember(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[DescribedTopicPartitions, ...]
    target_assignment: tuple[DescribedTopicPartitions, ...]
    member_type: int = 1
    """The member's type: -1 unknown, 0 classic, 1 consumer (KIP-1099)."""


class DescribedConsumerGroup(NamedTuple):
    error_code: ErrorCode
    group_id: str
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
    authorized_operations: int = NO_AUTHORIZED_OPERATIONS


class ConsumerGroupDescribeResponse(NamedTuple):
    groups: tuple[DescribedConsumerGroup, ...]


GroupRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | OffsetFetchRequest
    | OffsetDeleteRequest
    | DescribeGroupsRequest
    | ListGroupsRequest
    | DeleteGroupsRequest
    | ConsumerGroupHeartbeatRequest
    | ConsumerGroupDescribeRequest
)
