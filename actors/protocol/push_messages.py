"""Requests and answers of groups whose coordinator pushes, free of wire versions (D3, D4, D5).

A consumer sends RegisterConsumer. All others the coordinator sends to the consumer, whose answers come in as
`ConsumerAnswer`. `actors.protocol.push_codec` turns bytes into these and back.
"""

from typing import NamedTuple

from kio.schema.errors import ErrorCode

SMALLEST = "smallest"
LARGEST = "largest"
RESETS = (SMALLEST, LARGEST)
"""Where a consumer begins that finds no offset, or one out of range."""


class TopicCount(NamedTuple):
    """What a consumer is interested in, and with how many streams it reads that."""

    topic: str
    """The name of a topic, or a regular expression."""
    is_wildcard: bool
    streams: int


class RegisterConsumerRequest(NamedTuple):
    group_id: str
    consumer_id: str
    topic_counts: tuple[TopicCount, ...]
    auto_commit: bool
    auto_offset_reset: str
    session_timeout_ms: int


class RegisterConsumerResponse(NamedTuple):
    error_code: ErrorCode
    error_message: str | None = None


class PingRequest(NamedTuple):
    group_id: str
    consumer_id: str
    retries: int
    """How many pings before this one had no answer."""


class StopFetcherRequest(NamedTuple):
    group_id: str
    consumer_id: str


class StartPosition(NamedTuple):
    topic: str
    partition: int
    offset: int
    """The committed offset; -1: there is none, and the consumer resets."""


class Owned(NamedTuple):
    """What one thread of a consumer owns."""

    thread_id: str
    partitions: tuple[StartPosition, ...]


class BrokerPlace(NamedTuple):
    broker_id: int
    host: str
    port: int


class StartFetcherRequest(NamedTuple):
    group_id: str
    consumer_id: str
    generation_id: int
    """What an OffsetCommit of this consumer has to name."""
    ownership: tuple[Owned, ...]
    """The threads that own something, ascending."""
    brokers: tuple[BrokerPlace, ...]


class Pushed(NamedTuple):
    """One request of the coordinator on its way to a consumer."""

    api_key: int
    number: int
    """The number that the answer is known by; it is never reused by this leader."""
    until_ms: int
    """The time after which the request is not sent any more: the coordinator has counted on the consumer's
    hearing it before."""
    request: PingRequest | StopFetcherRequest | StartFetcherRequest


class Hangup(NamedTuple):
    """The end of a consumer's connection, because it has not answered."""

    reason: str


ConsumedOffsets = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""(topic, ((partition, offset), ...)) of each topic."""


class ChannelClosed(NamedTuple):
    """What a leader tells its shard: the connection of a consumer has gone."""

    group_id: str
    consumer_id: str
    session: int
    """The token of the RegisterConsumer that the connection began with."""


class Said(NamedTuple):
    """What a consumer says in an answer, besides who it is."""

    error_code: int = 0
    offsets: ConsumedOffsets = ()
    is_shutting_down: bool = False


SAID_NOTHING = Said()


class ConsumerAnswer(NamedTuple):
    """A consumer's answer to a request of the coordinator."""

    group_id: str
    consumer_id: str
    session: int
    """The token of the RegisterConsumer that its connection began with."""
    number: int
    """The request's number, see `Pushed`."""
    error_code: int = 0
    offsets: ConsumedOffsets = ()
    """The next offset of each partition, in answers to Ping and StopFetcher."""
    is_shutting_down: bool = False
    """Whether the consumer has stopped for good, in answers to Ping."""
