"""The records of `__consumer_offsets` and `__transaction_state` as Kafka 4.4.0 defines them: one table for
each topic, every version (A20, W53).

Names are those that Kafka's own formatters print.

A key is its type (int16) and its fields; a value is its version (int16) and its fields. Versions from
`flexible_since` on have compact lengths and tagged fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

INT8: Final = "int8"
INT16: Final = "int16"
INT32: Final = "int32"
INT64: Final = "int64"
STRING: Final = "string"
BYTES: Final = "bytes"
UUID: Final = "uuid"
UUID_BYTES: Final = 16
NUMBERS: Final = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}
"""The types of signed numbers -> how many bits they have."""
STRING_BYTES_MAX: Final = 0x7FFF

VERSION_MAX: Final = 32_767
NO_ID: Final = bytes(UUID_BYTES)


@dataclass(frozen=True, slots=True)
class Array:
    of: str | Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field; `tag` is its number if it is a tagged one. `default` is what a version without it means."""

    name: str
    type: str | Array | Struct
    since: int = 0
    until: int = VERSION_MAX
    nullable: bool = False
    tag: int | None = None
    default: Any = None
    is_always_written: bool = False
    """Whether the field is written though it is tagged and has its default."""

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A type of record: its key, and its value in versions 0 to `version_max`."""

    kind: int
    name: str
    key: Struct
    value: Struct
    version_max: int = 0
    flexible_since: int = 0

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_since


Schemas = Mapping[int, Schema]
"""Type of a record -> its schema, for the records of one topic."""


def _struct(*fields: Field) -> Struct:
    return Struct(fields)


def _strings(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name=name, type=STRING) for name in names)


_OFFSET_KEY = _struct(*_strings("group", "topic"), Field(name="partition", type=INT32))
_GROUP_ID = _struct(*_strings("groupId"))
_MEMBER_ID = _struct(*_strings("groupId", "memberId"))

_OFFSET_VALUE = _struct(
    Field(name="offset", type=INT64),
    Field(name="leaderEpoch", type=INT32, since=3, default=-1),
    Field(name="metadata", type=STRING),
    Field(name="commitTimestamp", type=INT64),
    Field(name="expireTimestamp", type=INT64, since=1, until=1, default=-1),
    Field(name="topicId", type=UUID, since=4, tag=0, default=NO_ID),
)
_CLASSIC_MEMBER = _struct(
    *_strings("memberId"),
    Field(name="groupInstanceId", type=STRING, since=3, nullable=True),
    *_strings("clientId", "clientHost"),
    Field(name="rebalanceTimeout", type=INT32, since=1, default=-1),
    Field(name="sessionTimeout", type=INT32),
    Field(name="subscription", type=BYTES),
    Field(name="assignment", type=BYTES),
)
_CLASSIC_GROUP = _struct(
    *_strings("protocolType"),
    Field(name="generation", type=INT32),
    Field(name="protocol", type=STRING, nullable=True),
    Field(name="leader", type=STRING, nullable=True),
    Field(name="currentStateTimestamp", type=INT64, since=2, default=-1),
    Field(name="members", type=Array(_CLASSIC_MEMBER)),
)
_PARTITION_METADATA = _struct(
    Field(name="partition", type=INT32),
    Field(name="racks", type=Array(STRING)),
)
_TOPIC_METADATA = _struct(
    Field(name="topicId", type=UUID),
    Field(name="topicName", type=STRING),
    Field(name="numPartitions", type=INT32),
    Field(name="partitionMetadata", type=Array(_PARTITION_METADATA)),
)
_SUPPORTED_PROTOCOL = _struct(
    Field(name="name", type=STRING),
    Field(name="metadata", type=BYTES),
)
_CLASSIC_METADATA = _struct(
    Field(name="sessionTimeoutMs", type=INT32),
    Field(name="supportedProtocols", type=Array(_SUPPORTED_PROTOCOL)),
)
_CONSUMER_MEMBER = _struct(
    Field(name="instanceId", type=STRING, nullable=True),
    Field(name="rackId", type=STRING, nullable=True),
    *_strings("clientId", "clientHost"),
    Field(name="subscribedTopicNames", type=Array(STRING)),
    Field(name="subscribedTopicRegex", type=STRING, nullable=True),
    Field(name="rebalanceTimeoutMs", type=INT32, default=-1),
    Field(name="serverAssignor", type=STRING, nullable=True),
    # Kafka takes a record without this field for one of a member that does speak the classic protocol.
    Field(name="classicMemberMetadata", type=_CLASSIC_METADATA, nullable=True, tag=0, is_always_written=True),
)
_TARGET_PARTITIONS = _struct(
    Field(name="topicId", type=UUID),
    Field(name="partitions", type=Array(INT32)),
)
_OWNED_PARTITIONS = _struct(
    Field(name="topicId", type=UUID),
    Field(name="partitions", type=Array(INT32)),
    # The assignment epochs are KIP-1251's.
    Field(name="assignmentEpochs", type=Array(INT32), nullable=True, tag=0),
)
_CURRENT_ASSIGNMENT = _struct(
    Field(name="memberEpoch", type=INT32),
    Field(name="previousMemberEpoch", type=INT32),
    Field(name="state", type=INT8),
    Field(name="assignedPartitions", type=Array(_OWNED_PARTITIONS)),
    Field(name="partitionsPendingRevocation", type=Array(_OWNED_PARTITIONS)),
)

SCHEMAS: Final[Schemas] = {
    schema.kind: schema
    for schema in (
        Schema(
            kind=0, name="OffsetCommit (before 0.9)", key=_OFFSET_KEY, value=_OFFSET_VALUE, flexible_since=4
        ),
        Schema(
            kind=1,
            name="OffsetCommit",
            key=_OFFSET_KEY,
            value=_OFFSET_VALUE,
            version_max=4,
            flexible_since=4,
        ),
        Schema(
            kind=2,
            name="GroupMetadata",
            key=_struct(*_strings("group")),
            value=_CLASSIC_GROUP,
            version_max=4,
            flexible_since=4,
        ),
        Schema(
            kind=3,
            name="ConsumerGroupMetadata",
            key=_GROUP_ID,
            value=_struct(
                Field(name="epoch", type=INT32),
                Field(name="metadataHash", type=INT64, tag=0, default=0),
            ),
        ),
        Schema(
            kind=4,
            name="ConsumerGroupPartitionMetadata",
            key=_GROUP_ID,
            value=_struct(Field(name="topics", type=Array(_TOPIC_METADATA))),
        ),
        Schema(kind=5, name="ConsumerGroupMemberMetadata", key=_MEMBER_ID, value=_CONSUMER_MEMBER),
        Schema(
            kind=6,
            name="ConsumerGroupTargetAssignmentMetadata",
            key=_GROUP_ID,
            value=_struct(
                Field(name="assignmentEpoch", type=INT32),
                Field(name="assignmentTimestamp", type=INT64, tag=0, default=0),
            ),
        ),
        Schema(
            kind=7,
            name="ConsumerGroupTargetAssignmentMember",
            key=_MEMBER_ID,
            value=_struct(Field(name="topicPartitions", type=Array(_TARGET_PARTITIONS))),
        ),
        Schema(
            kind=8, name="ConsumerGroupCurrentMemberAssignment", key=_MEMBER_ID, value=_CURRENT_ASSIGNMENT
        ),
        Schema(
            kind=16,
            name="ConsumerGroupRegularExpression",
            key=_struct(*_strings("groupId", "regularExpression")),
            value=_struct(
                Field(name="topics", type=Array(STRING)),
                Field(name="version", type=INT64),
                Field(name="timestamp", type=INT64),
            ),
        ),
    )
}
"""The records of classic and consumer groups, which are in `__consumer_offsets`."""

_TRANSACTION_PARTITIONS = _struct(
    *_strings("topic"),
    Field(name="partitionIds", type=Array(INT32)),
)
_TRANSACTION = _struct(
    Field(name="producerId", type=INT64),
    Field(name="producerEpoch", type=INT16),
    Field(name="transactionTimeoutMs", type=INT32),
    Field(name="transactionStatus", type=INT8),
    Field(name="transactionPartitions", type=Array(_TRANSACTION_PARTITIONS), nullable=True),
    Field(name="transactionLastUpdateTimestampMs", type=INT64),
    Field(name="transactionStartTimestampMs", type=INT64),
    Field(name="previousProducerId", type=INT64, since=1, tag=0, default=-1),
    Field(name="nextProducerId", type=INT64, since=1, tag=1, default=-1),
    Field(name="clientTransactionVersion", type=INT16, since=1, tag=2, default=0),
    Field(name="nextProducerEpoch", type=INT16, since=1, tag=3, default=-1),
)
TRANSACTION_LOG: Final = 0
"""The one type of record in `__transaction_state`."""
TRANSACTION_SCHEMAS: Final[Schemas] = {
    TRANSACTION_LOG: Schema(
        kind=TRANSACTION_LOG,
        name="TransactionLog",
        key=_struct(*_strings("transactionalId")),
        value=_TRANSACTION,
        version_max=1,
        flexible_since=1,
    )
}
"""The records of transactional ids, which are in `__transaction_state`."""
