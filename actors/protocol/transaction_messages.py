"""Requests and responses of transactions, free of wire versions, as `messages` has the groups' own.

`group_id` names what a request's offsets partition is found by: the group of TxnOffsetCommit, for all others
the transactional id (both by the same hash). A request of several transactional ids has none.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.protocol.messages import NO_ERROR, CommittedPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

TopicErrors = tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]
"""The error of each partition: (topic, ((partition, error), ...)) of each topic."""
TopicNumbers = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics and partitions: (topic, (partition, ...)) of each topic."""


class InitProducerIdRequest(NamedTuple):
    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that the producer has had, if it recovers (KIP-360); -1, as its id, otherwise."""

    @property
    def group_id(self) -> str:
        return self.transactional_id


class InitProducerIdResponse(NamedTuple):
    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionPartitions(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: TopicNumbers
    verify_only: bool = False
    """Whether to ask only if the partitions are in the transaction, and to add nothing (KIP-890)."""


class AddPartitionsToTxnRequest(NamedTuple):
    """A request to add partitions to transactions; it has exactly one transaction below version 4."""

    transactions: tuple[TransactionPartitions, ...]


class TransactionPartitionErrors(NamedTuple):
    transactional_id: str
    topics: TopicErrors


class AddPartitionsToTxnResponse(NamedTuple):
    results: tuple[TransactionPartitionErrors, ...]
    error_code: ErrorCode = NO_ERROR


class AddOffsetsToTxnRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    offsets_group_id: str
    """The group whose offsets are to be committed with the transaction."""

    @property
    def group_id(self) -> str:
        return self.transactional_id


class AddOffsetsToTxnResponse(NamedTuple):
    error_code: ErrorCode


class EndTxnRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

    @property
    def group_id(self) -> str:
        return self.transactional_id


class EndTxnResponse(NamedTuple):
    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch with which the producer is to go on, in version 5 and later (KIP-890)."""


class TxnOffsetCommitRequest(NamedTuple):
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[tuple[str, tuple[CommittedPartition, ...]], ...]
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topic_ids: tuple[bytes, ...] | None = None
    """The id of each of `topics`, whose names are "" then: version 6 names topics by id (KIP-1319)."""


class TxnOffsetCommitResponse(NamedTuple):
    topics: TopicErrors
    topic_ids: tuple[bytes, ...] | None = None
    """The id of each of `topics`, in version 6."""


SECOND_GENERATION = 2
"""The version of transactions in which each transaction of a producer has an epoch of its own (KIP-890)."""


def ends(marker_epoch: int, transaction_version: int, producer_epoch: int) -> bool:
    """Return whether a marker ends a transaction that has this epoch of its producer. In the second
    generation a marker has the epoch of the transaction after the one that it ends: where that one is found,
    the marker is late or comes twice, and would end the wrong one (KIP-1228)."""
    return transaction_version < SECOND_GENERATION or marker_epoch > producer_epoch


class TxnMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    committed: bool
    topics: TopicNumbers
    coordinator_epoch: int
    """The Raft term of the transaction's coordinator."""
    transaction_version: int = 0

    def ends(self, producer_epoch: int) -> bool:
        """Return whether the marker ends a transaction that has this epoch of its producer (see `ends`)."""
        return ends(self.producer_epoch, self.transaction_version, producer_epoch)


class WriteTxnMarkersRequest(NamedTuple):
    markers: tuple[TxnMarker, ...]


class TxnMarkerErrors(NamedTuple):
    producer_id: int
    topics: TopicErrors


class WriteTxnMarkersResponse(NamedTuple):
    markers: tuple[TxnMarkerErrors, ...]


class DescribeTransactionsRequest(NamedTuple):
    transactional_ids: tuple[str, ...]


class DescribedTransaction(NamedTuple):
    error_code: ErrorCode
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    """When the open transaction began; -1: none is open."""
    producer_id: int = 0
    producer_epoch: int = 0
    topics: TopicNumbers = ()


class DescribeTransactionsResponse(NamedTuple):
    transactions: tuple[DescribedTransaction, ...]


class ListTransactionsRequest(NamedTuple):
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter_ms: int = -1
    """The least time, in ms, for which listed transactions are open; negative for any time (KIP-994)."""
    transactional_id_pattern: str | None = None
    """A regular expression in RE2's syntax for the whole id; null and "" mean any (KIP-1152)."""


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    transaction_state: str


class ListTransactionsResponse(NamedTuple):
    error_code: ErrorCode
    transactions: tuple[ListedTransaction, ...] = ()
    unknown_state_filters: tuple[str, ...] = ()


def same_error(topics: TopicNumbers, error: ErrorCode) -> TopicErrors:
    """Return the same error for every partition."""
    return tuple((topic, tuple((number, error) for number in numbers)) for topic, numbers in topics)


def error_of_each(answers: Iterable[TopicErrors]) -> dict[tuple[str, int], ErrorCode]:
    """Return (topic, partition) -> its error."""
    return {
        (topic, number): error for topics in answers for topic, numbers in topics for number, error in numbers
    }
