"""The plan of a swarm, made before it starts: its members, and what happens to which of them and when.

PURE: a scenario and a seed give a plan, always the same; the swarm only reads it.
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
"""The member ends as a client that is closed: a dynamic member leaves its group, a static one is just gone
(KIP-345; KIP-848: epoch -2)."""
CRASH: Final = "crash"
"""The member ends without a LeaveGroup."""
SLEEP: Final = "sleep"
"""The member processes for `value` seconds: beyond max.poll.interval.ms it leaves, and joins again when it is
done."""
CUT: Final = "cut"
"""The member's connections end, and it connects again."""
GROW: Final = "grow"
"""The topic has `value` partitions from now on."""


CONSUMER_SESSION_MS: Final = 45_000
"""The default of Kafka's group.consumer.session.timeout.ms, which is also the least that Kafka allows by
default."""


class TopicPlan(NamedTuple):
    name: str
    partitions: int


class ProducerPlan(NamedTuple):
    """A producer of records."""

    name: str
    topics: tuple[str, ...]
    """The topics to whose partitions it writes in turn."""
    records_s: float
    """How many records it writes per second."""
    record_bytes: int


class RecordsPlan(NamedTuple):
    """How a member that really fetches processes its records."""

    process_ms: tuple[float, float]
    """The least and the longest time that a record takes."""
    max_poll_records: int


class MemberPlan(NamedTuple):
    """A fake consumer. A restarted one is the same member with another START."""

    name: str
    """The name, unique in the swarm, such as "orders-3/12"; it is the client id, too."""
    group_id: str
    protocol: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    """The session time-out of a classic member; that of a KIP-848 group is the server's."""
    heartbeat_interval_ms: int = 3_000
    """The heartbeat interval of a classic member; a KIP-848 member is told its interval."""
    rebalance_timeout_ms: int = 60_000
    """The default of Kafka's clients: also how long a member may process without a poll
    (max.poll.interval.ms)."""
    commit_interval_ms: int = 5_000
    """The time between two commits; 0: it never commits."""
    commit_partitions_max: int = 1_000
    """How many partitions one OffsetCommit has at most."""
    client: str = JAVA
    """The client software, by its name in `clients.CLIENTS`."""
    records: RecordsPlan | None = None
    """How it processes records; None: it fetches nothing, and commits offsets that rise by chance."""


class Action(NamedTuple):
    at_s: float
    """The time since the swarm's start."""
    kind: str
    subject: str
    """The name of a member or a topic."""
    value: float = 0.0


class Plan(NamedTuple):
    scenario: str
    seed: int
    duration_s: float
    topics: tuple[TopicPlan, ...]
    members: tuple[MemberPlan, ...]
    actions: tuple[Action, ...]
    """The actions in the order of time. After `duration_s` all members that are left leave."""
    members_per_connection: int = 1
    """How many members of one process share a connection to a coordinator. Against Kafka this must be 1 if
    requests are held, because it answers a connection's requests in order."""
    producers: tuple[ProducerPlan, ...] = ()
    thresholds: tuple[str, ...] = ()
    """The limits of the run's figures (see `thresholds`), which are carried along for the report."""
    least_answered: float = LEAST_ANSWERED
    """The share of due requests that have to be answered, or the run shows nothing."""
