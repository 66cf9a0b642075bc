"""What a swarm does, decided before it starts: who is in it, and what happens to whom and when.

PURE: a scenario and a seed give a plan, always the same; whatever carries it out only reads it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.member.assigning import CLASSIC_COOPERATIVE, CLASSIC_OPAQUE, CLASSIC_RANGE
from bench.swarm.planning.clients import JAVA
from storage.history.judge.findings import LEAST_ANSWERED

CONSUMER: Final = "consumer"
PROTOCOLS: Final = (CLASSIC_RANGE, CLASSIC_COOPERATIVE, CLASSIC_OPAQUE, CONSUMER)

START: Final = "start"
LEAVE: Final = "leave"
"""Ends as a client that is closed: a dynamic member leaves its group, a static one is just gone (KIP-345;
KIP-848: epoch -2)."""
CRASH: Final = "crash"
"""Is gone without a word."""
SLEEP: Final = "sleep"
"""Processes for `value` seconds: beyond max.poll.interval.ms it leaves, and joins again when it wakes."""
CUT: Final = "cut"
"""A member's connections end; it connects again."""
GROW: Final = "grow"
"""The topic has `value` partitions from now on."""


CONSUMER_SESSION_MS: Final = 45_000
"""Kafka's default of group.consumer.session.timeout.ms, and the least that Kafka allows by default."""


class TopicPlan(NamedTuple):
    name: str
    partitions: int


class ProducerPlan(NamedTuple):
    """Who writes records, if any are written."""

    name: str
    topics: tuple[str, ...]
    """It writes to all of their partitions in turn."""
    records_s: float
    """Records a second."""
    record_bytes: int


class RecordsPlan(NamedTuple):
    """How a member that really fetches processes its records."""

    process_ms: tuple[float, float]
    """One record takes between these."""
    max_poll_records: int


class MemberPlan(NamedTuple):
    """One fake consumer. A restarted one is the same member with another START."""

    name: str
    """Unique in the swarm, as "orders-3/12"; also its client id."""
    group_id: str
    protocol: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    """Classic; a KIP-848 group's is the server's."""
    heartbeat_interval_ms: int = 3_000
    """Classic; a KIP-848 member is told its interval."""
    rebalance_timeout_ms: int = 60_000
    """The default of Kafka's clients: also how long a member may process without a poll
    (max.poll.interval.ms)."""
    commit_interval_ms: int = 5_000
    """0: never."""
    commit_partitions_max: int = 1_000
    """Partitions of one OffsetCommit."""
    client: str = JAVA
    """Which software it is: a name of `clients.CLIENTS`."""
    records: RecordsPlan | None = None
    """None: it fetches nothing, and commits offsets that rise by chance."""


class Action(NamedTuple):
    at_s: float
    """After the swarm's start."""
    kind: str
    subject: str
    """A member's name, or a topic's."""
    value: float = 0.0


class Plan(NamedTuple):
    scenario: str
    seed: int
    duration_s: float
    topics: tuple[TopicPlan, ...]
    members: tuple[MemberPlan, ...]
    actions: tuple[Action, ...]
    """Actions in the order of time. After `duration_s` whoever is left leaves."""
    members_per_connection: int = 1
    """How many members of one process share a connection to a coordinator. Not against Kafka if requests are
    held (it answers a connection's requests in order)."""
    producers: tuple[ProducerPlan, ...] = ()
    thresholds: tuple[str, ...] = ()
    """What its figures have to keep to (see `thresholds`): carried along for the report."""
    least_answered: float = LEAST_ANSWERED
    """Share of the requests that it makes due that have to be answered, or its run shows nothing."""
