"""The coordinator's replicated records: Kafka's own record types as NamedTuples.

A key is `(kind, group_id, ...)`; `kind` is the type that Kafka writes in `__consumer_offsets`. Classic
groups differ on purpose: one GroupMetadata record and one record per member, so that no big group makes
a record too large (KAFKA-3810). Everything is str, int, bytes, None or tuples
of these: msgpack carries it as it is.
"""

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
"""Our own record type: one member of a classic group (Kafka keeps them all inside GROUP_METADATA)."""
PENDING_TXN_OFFSET = 103
"""Our own record type: an offset of an open transaction (in Kafka a transactional OFFSET_COMMIT record,
O7)."""
TRANSACTION = 104
"""Our own record type: one transactional id (in Kafka a record of `__transaction_state`)."""
PRODUCER_ID_BLOCK = 105
"""Our own record type: how many producer ids this offsets partition has given out."""
PRODUCER_MARKER = 106
"""Our own record type: the last marker of a producer (in Kafka part of the log's producer state)."""
OFFSET_BATCH = 108
"""Our own record type: what one request commits of one topic, in the place of an OFFSET_COMMIT for each
partition. Tiers at level 1 write it into their logs; level 2 has OFFSET_ROWS."""
DYING_GROUP = 107
"""Our own record type: a group that is deleted and has more offsets than are deleted at once."""
SPLIT_SEAL = 109
"""Our own record type: the groups of this offsets partition that belong to its child are served there."""
ARRIVAL = 110
"""Our own record type: all groups that move to this offsets partition are here."""
OFFSET_ROWS = 111
"""Our own record type, from level 2 on: many committed offsets of one topic, packed. In a log it is what one
request commits, in a snapshot all that is kept so."""
CLIENT_ASSIGNORS = 115
"""Our own record type, from level 2 on: the assignors of a KIP-848 member that can assign (in KIP-848's first
text a part of its metadata)."""
CLIENT_ASSIGNMENT = 116
"""Our own record type, from level 2 on: what a member's assignor has for a member beside partitions (in
KIP-848's first text a part of its target)."""
PUSH_GROUP = 120
"""Our own record type, from level 2 on: a group whose coordinator pushes (D8)."""
PUSH_CONSUMER = 121
"""Our own record type, from level 2 on: one registered consumer of such a group (D3)."""
PUSH_OWNERSHIP = 122
"""Our own record type, from level 2 on: what one consumer of such a group owns (D8)."""
TAKEN_LOG = 125
"""Our own record type, from level 2 on: how far Kafka's log of this offsets partition has been taken over."""
FOREIGN_RECORD = 126
"""Our own record type, from level 2 on: a record of Kafka's log that means nothing here, byte for byte."""
OF_NO_GROUP = frozenset({SPLIT_SEAL, ARRIVAL, TAKEN_LOG, FOREIGN_RECORD})
"""The record types that belong to no group."""

NO_EXPIRY = -1
"""The number that stands for the time at which a committed offset expires if it has none (O5)."""

TopicPartitions = tuple[tuple[bytes, bytes], ...]
"""An assignment: pairs (topic id, partitions), sorted by topic id, no topic twice and none empty.
`topic id` is 16 bytes. `partitions` is an ascending int32 array, big-endian, as it stands on the wire
(`numpy.frombuffer(partitions, '>i4')`; 4 bytes a partition), without a length prefix."""
Position = tuple[str, int]
"""What a group has one committed offset of: a topic's name and a partition."""


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
    """When the offset expires, in ms; NO_EXPIRY unless the commit itself named a retention (O5)."""
    topic_id: bytes
    """The topic's id: 16 bytes; zeros if it was not known."""


class DyingGroupKey(NamedTuple):
    kind: int
    group_id: str


class DyingGroupValue(NamedTuple):
    deleted_at_ms: int


class OffsetBatchKey(NamedTuple):
    kind: int
    group_id: str
    topic: str


class OffsetBatchValue(NamedTuple):
    """Committed offsets without metadata. The first three fields belong together item by item. If a partition
    is named twice, its last offset counts."""

    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes


class OffsetRowsKey(NamedTuple):
    kind: int
    group_id: str
    topic: str


OffsetRows = tuple[bytes, int, int, bytes]
"""Committed offsets without metadata: (rows, commit_timestamp_ms, expire_timestamp_ms, topic_id). `rows` has
16 bytes for each: partition (int32), offset (int64), leader epoch (int32), big-endian, no partition twice.
The other three are as in OffsetCommitValue, and the same for all of them."""


class OffsetRowsValue(NamedTuple):
    blocks: tuple[OffsetRows, ...]
    """The offsets, no partition in two of the blocks."""


class GroupMetadataKey(NamedTuple):
    kind: int
    group_id: str


class GroupMetadataValue(NamedTuple):
    """A classic group as it was when it was last Stable or Empty (C26). A simple group has protocol_type
    ""."""

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
    """What the member offers: (name, metadata), in its order of preference."""
    assignment: bytes


class ConsumerGroupKey(NamedTuple):
    """The key of CONSUMER_GROUP_METADATA and of TARGET_ASSIGNMENT_METADATA."""

    kind: int
    group_id: str


class ConsumerGroupValue(NamedTuple):
    group_epoch: int
    metadata_hash: int


class TargetMetadataValue(NamedTuple):
    assignment_epoch: int
    assignment_timestamp_ms: int


class ConsumerMemberKey(NamedTuple):
    """The key of CONSUMER_MEMBER_METADATA, TARGET_ASSIGNMENT_MEMBER, CURRENT_MEMBER_ASSIGNMENT and of the
    two records of members that assign."""

    kind: int
    group_id: str
    member_id: str


class ConsumerMemberValue(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    """The topics that the member subscribes to by name, sorted and without repetition."""
    subscribed_topic_regex: str
    """The regular expression that the member subscribes by; "" for none."""
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: tuple[int, tuple[tuple[str, bytes], ...]] | None = None
    """The session_timeout_ms and protocols of a member that speaks the classic protocol (G3); None for all
    others."""


class ClientAssignor(NamedTuple):
    """An assignor that a member can run (A4)."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int
    """Why the metadata are as they are, in the assignor's own numbers; 0: nothing asks for an assignment."""
    version: int
    """The version of the metadata."""
    metadata: bytes


class ClientAssignorsValue(NamedTuple):
    assignors: tuple[ClientAssignor, ...]
    """The member's assignors in its order of preference; in a log as plain tuples."""


class ClientAssignmentValue(NamedTuple):
    error: int
    metadata_version: int
    metadata: bytes


class TargetMemberValue(NamedTuple):
    topic_partitions: TopicPartitions


class CurrentAssignmentValue(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: int
    """The member's state as Kafka numbers them: STABLE 0, UNREVOKED_PARTITIONS 1, UNRELEASED_PARTITIONS 2."""
    assigned: TopicPartitions
    pending_revocation: TopicPartitions
    assignment_epochs: tuple[bytes, ...] = ()
    """The epoch since which the member has each partition (KIP-1251): one packed int32 array for each topic
    of `assigned` and then each of `pending_revocation`, with one epoch for all of the topic's partitions if
    they are equal. (): all have `member_epoch`."""


class RegularExpressionKey(NamedTuple):
    kind: int
    group_id: str
    regex: str


class RegularExpressionValue(NamedTuple):
    topics: tuple[str, ...]
    image_version: int
    timestamp_ms: int


class PendingTxnOffsetKey(NamedTuple):
    kind: int
    group_id: str
    topic: str
    partition: int
    producer_id: int


class PendingTxnOffsetValue(NamedTuple):
    """An offset that becomes the committed one when its transaction commits, unless a newer one has been
    committed."""

    producer_epoch: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: bytes
    """The topic's id: 16 bytes; zeros if it was not known."""
    sequence: int
    """A number that rises with each pending offset of the partition: it says which of two transactions wrote
    later."""
    replaces: tuple[int, int] | None
    """The offset and commit_timestamp_ms of the committed offset that this one is newer than; None: there is
    none. Any other one, by the time the transaction commits, is newer than this (compaction safety, O7)."""


class TransactionKey(NamedTuple):
    kind: int
    transactional_id: str


class TransactionValue(NamedTuple):
    """A transactional id's producer and its transaction (Kafka's TransactionMetadata)."""

    producer_id: int
    last_producer_id: int
    """The producer id before this one, whose retried InitProducerId is still answered; -1 for none."""
    producer_epoch: int
    last_producer_epoch: int
    txn_timeout_ms: int
    state: int
    """The transaction's state as Kafka numbers them, see `transactions.states`."""
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    """The partitions that the transaction has written to: (topic, ascending partitions), sorted by topic.
    Groups' offsets are in `__consumer_offsets`."""
    start_ms: int
    """When the transaction began, in ms; -1: none was begun yet."""
    last_update_ms: int
    next_producer_id: int = -1
    """The id with which the producer goes on once the transaction that is ending has ended, because the
    epochs of its present one are used up (KIP-890); -1: with the present one."""
    client_version: int = 0
    """The generation of transactions that the last client spoke, as far as the coordinator could tell: 2, or
    0 for any before (KIP-890). It is told to readers of `__transaction_state` (W53)."""


class ProducerIdBlockKey(NamedTuple):
    kind: int
    transactional_id: str
    """Always "": the block belongs to the offsets partition, not to a transactional id."""


class ProducerIdBlockValue(NamedTuple):
    partition: int
    """The offsets partition, which is in the high bits of every id that it gives out."""
    given_out: int


class ProducerMarkerKey(NamedTuple):
    kind: int
    group_id: str
    """Always "": a marker ends a producer's transaction for all groups of the offsets partition."""
    producer_id: int


class ProducerMarkerValue(NamedTuple):
    """The marker that a late marker or commit of a zombie is compared with."""

    producer_epoch: int
    coordinator_epoch: int
    timestamp_ms: int


class SplitSealKey(NamedTuple):
    kind: int
    group_id: str
    """Always "": a seal concerns all groups that move."""
    child: int
    """The offsets partition that they move to."""


class SplitSealValue(NamedTuple):
    partitions: int
    """How many offsets partitions the tier has once all have been split."""
    coordinator_epoch: int
    """No marker of a transaction that moves was written here in a higher epoch."""
    is_dropped: int = 0
    """Whether what has moved is removed here (1), because its new place has all of it."""


class ArrivalKey(NamedTuple):
    kind: int
    group_id: str
    """Always ""."""


class ArrivalValue(NamedTuple):
    parent: int
    """The offsets partition that the groups came from."""
    partitions: int
    """How many offsets partitions the tier had when they came."""
    coordinator_epoch: int
    """Markers are written here in higher epochs: the parent's must not shut them out."""


class PushGroupKey(NamedTuple):
    kind: int
    group_id: str


class PushGroupValue(NamedTuple):
    """A group whose coordinator pushes."""

    epoch: int
    """How often the ownership was decided anew."""
    is_rebalancing: int
    """Whether consumers are being stopped or started (1): the next leader goes on with it."""
    since_ms: int
    """When the group came to this, in ms."""


class PushConsumerKey(NamedTuple):
    """The key of PUSH_CONSUMER and of PUSH_OWNERSHIP."""

    kind: int
    group_id: str
    consumer_id: str


class PushConsumerValue(NamedTuple):
    client_id: str
    client_host: str
    session_timeout_ms: int
    auto_commit: int
    """Whether the consumer tells its offsets with its answers (1)."""
    auto_offset_reset: str
    topic_counts: tuple[tuple[str, int, int], ...]
    """What the consumer is interested in: (topic or wildcard, whether it is a wildcard, number of streams)
    of each, sorted."""


class PushOwnershipValue(NamedTuple):
    threads: tuple[TopicPartitions, ...]
    """What each of the consumer's threads owns, by the thread's number."""


class TakenLogKey(NamedTuple):
    kind: int
    group_id: str
    """Always "": all groups of the offsets partition are in this log."""


class TakenLogValue(NamedTuple):
    topic_id: bytes
    """The id of Kafka's topic, 16 bytes: a topic of the same name that is made anew has another log."""
    next_offset: int
    """The offset of the first record that has not been taken."""
    leader_epoch: int
    """The epoch of the leader that wrote the last batch that was taken, as Fetch names it; -1: none was."""
    phase: int
    """What becomes of the log: FOLLOWED 0, SERVED 1, DROPPED 2, SEALED 3."""
    owed_offset: int = 0
    """The offset before which nobody is served: up to it Kafka counts on a copy that was begun anew."""
    served_epoch: int = -1
    """The leader epoch upstream in which the groups began to be served; -1: not known."""
    kept_epoch: int = -1
    """The lowest leader epoch of batches that are taken, or were: brokers led what the tier alone had, and
    what is older is here already. It is -1 if that was never so."""
    acknowledged_offset: int = 0
    """The offset before which Kafka had acknowledged everything when this was taken: its high watermark."""
    released_epoch: int = -1
    """The leader epoch of a node of ours in which brokers have everything that was sealed, so that they may
    lead in the next one; -1: they have not."""


FOLLOWED, SERVED, DROPPED, SEALED = range(4)
"""A phase of Kafka's log here: more of it is to come and nobody is served; all of it is here, and its groups
are served; what was taken is being removed; nobody is served any more, because brokers are to lead, who have
the log from here."""


class ForeignRecordKey(NamedTuple):
    kind: int
    group_id: str
    """Always "": what group it is of, if it is of one, is not known here."""
    foreign_key: bytes


class ForeignRecordValue(NamedTuple):
    content: bytes


RECORD_TYPES: dict[int, tuple[type[tuple[object, ...]], type[tuple[object, ...]]]] = {
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    OFFSET_BATCH: (OffsetBatchKey, OffsetBatchValue),
    OFFSET_ROWS: (OffsetRowsKey, OffsetRowsValue),
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    CONSUMER_GROUP_METADATA: (ConsumerGroupKey, ConsumerGroupValue),
    CONSUMER_MEMBER_METADATA: (ConsumerMemberKey, ConsumerMemberValue),
    TARGET_ASSIGNMENT_METADATA: (ConsumerGroupKey, TargetMetadataValue),
    TARGET_ASSIGNMENT_MEMBER: (ConsumerMemberKey, TargetMemberValue),
    CURRENT_MEMBER_ASSIGNMENT: (ConsumerMemberKey, CurrentAssignmentValue),
    REGULAR_EXPRESSION: (RegularExpressionKey, RegularExpressionValue),
    CLIENT_ASSIGNORS: (ConsumerMemberKey, ClientAssignorsValue),
    CLIENT_ASSIGNMENT: (ConsumerMemberKey, ClientAssignmentValue),
    CLASSIC_MEMBER: (ClassicMemberKey, ClassicMemberValue),
    PENDING_TXN_OFFSET: (PendingTxnOffsetKey, PendingTxnOffsetValue),
    TRANSACTION: (TransactionKey, TransactionValue),
    PRODUCER_ID_BLOCK: (ProducerIdBlockKey, ProducerIdBlockValue),
    PRODUCER_MARKER: (ProducerMarkerKey, ProducerMarkerValue),
    DYING_GROUP: (DyingGroupKey, DyingGroupValue),
    SPLIT_SEAL: (SplitSealKey, SplitSealValue),
    ARRIVAL: (ArrivalKey, ArrivalValue),
    PUSH_GROUP: (PushGroupKey, PushGroupValue),
    PUSH_CONSUMER: (PushConsumerKey, PushConsumerValue),
    PUSH_OWNERSHIP: (PushConsumerKey, PushOwnershipValue),
    TAKEN_LOG: (TakenLogKey, TakenLogValue),
    FOREIGN_RECORD: (ForeignRecordKey, ForeignRecordValue),
}
"""Record type -> (key class, value class): how a record that travelled as plain tuples gets its names
back."""
