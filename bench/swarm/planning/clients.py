"""Client software that a member can be, and what of its behaviour a coordinator notices (see CLIENTS.md).

PURE: a table. Members ask it what to do; nothing else knows one client from another.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from bench.member.reactions import Reaction


class Client(NamedTuple):
    """How a client library behaves with its default settings."""

    name: str
    """The name that scenarios use."""
    software: tuple[str, str] | None
    """The name and version that it tells in ApiVersions v3 and later (KIP-511); None: it asks in an older
    version and tells nothing."""
    api_versions: int
    """The version of its first ApiVersions request."""
    speaks_consumer: bool = False
    """Whether it has the consumer protocol of KIP-848."""
    goes_on: bool = True
    """Whether it goes on to commit, join and heartbeat while a heartbeat waits for its answer."""
    beats_again: bool = False
    """Whether a classic member sends the next heartbeat when it is due, though the last one has no answer."""
    beats_from_answer: bool = False
    """Whether the heartbeat interval counts from the answer, not from the sending."""
    closes_at_once: bool = True
    """Whether it leaves at once when it is closed; False: it first waits for the answer of a heartbeat."""
    beats_asleep: bool = True
    """Whether heartbeats go on while the application processes."""
    commits_before_join: bool = True
    """Whether it commits what was processed before it gives partitions up."""
    heartbeat_timeout_ms: int = 30_000
    """How long it waits for a heartbeat's answer; then it gives the connection up."""
    consumer_timeout_is_interval: bool = False
    """Whether a KIP-848 member waits for a heartbeat's answer as long as the interval that it was told
    last."""
    backoff_ms: tuple[int, int] = (100, 1_000)
    """The first and the longest pause between two tries."""
    retries_at_interval: bool = False
    """Whether a classic member sends a heartbeat that found no coordinator again when the next one is due,
    not after a pause."""
    gives_up_after: int | None = None
    """How many heartbeats without a coordinator it takes its partitions for lost after."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    heartbeat_errors: tuple[tuple[int, Reaction], ...] = ()
    """How it reacts to errors of Heartbeat, where it does otherwise than Kafka's own clients."""


JAVA: Final = "apache-kafka-java"
_LIBRDKAFKA: Final = Client(
    "librdkafka",
    ("librdkafka", "2.15.0"),
    3,
    speaks_consumer=True,
    heartbeat_timeout_ms=45_000,
    consumer_timeout_is_interval=True,
    retries_at_interval=True,
)
_TABLE: Final = (
    Client(JAVA, (JAVA, "4.3.1"), 4, speaks_consumer=True, beats_again=True),
    _LIBRDKAFKA,
    _LIBRDKAFKA._replace(
        name="confluent-kafka-python", software=("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
    ),
    Client("kafka-python", ("kafka-python", "3.0.12"), 4, backoff_ms=(100, 100), retries_at_interval=True),
    Client(
        "aiokafka",
        None,
        0,
        heartbeat_timeout_ms=40_000,
        backoff_ms=(100, 100),
        session_timeout_ms=10_000,
        heartbeat_errors=((14, Reaction.GIVE_UP),),
    ),
    Client(
        "franz-go",
        ("kgo", "1"),
        4,
        speaks_consumer=True,
        goes_on=False,
        beats_from_answer=True,
        heartbeat_timeout_ms=10_000,
        backoff_ms=(250, 2_000),
        gives_up_after=4,
    ),
    Client(
        "sarama",
        ("sarama", "1.60.0"),
        3,
        goes_on=False,
        beats_from_answer=True,
        closes_at_once=False,
        backoff_ms=(250, 2_000),
        session_timeout_ms=10_000,
    ),
    Client(
        "kafkajs",
        None,
        2,
        goes_on=False,
        beats_from_answer=True,
        closes_at_once=False,
        beats_asleep=False,
        backoff_ms=(300, 30_000),
        session_timeout_ms=30_000,
    ),
    Client(
        "kafka-go",
        None,
        0,
        closes_at_once=False,
        commits_before_join=False,
        heartbeat_timeout_ms=5_000,
        backoff_ms=(100, 5_000),
        session_timeout_ms=30_000,
    ),
)
CLIENTS: Final = MappingProxyType({client.name: client for client in _TABLE})
