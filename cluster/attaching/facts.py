"""What is known of a Kafka cluster before the tier stands in front of it: the plan is made of nothing else.
PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from actors.upstream.image import ClusterImage
from cluster.attaching.rights import Right

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
SHARE: Final = "Share"
STREAMS: Final = "Streams"
"""A type of groups as ListGroups names it, as those above are. Brokers before Kafka 3.8 name none."""
FIRST_ID_DEFAULT: Final = 1001
NODES_DEFAULT: Final = 3
LISTENERS_DEFAULT: Final = ("PLAINTEXT",)
OFFSETS_PARTITIONS: Final = "offsets.topic.num.partitions"
INTER_BROKER_LISTENER: Final = "inter.broker.listener.name"
AUTHORIZER: Final = "authorizer.class.name"
AUTO_CREATE: Final = "auto.create.topics.enable"
SASL_MECHANISMS: Final = "sasl.enabled.mechanisms"
INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
BROKER_CONFIGS: Final = (
    OFFSETS_PARTITIONS,
    INTER_BROKER_LISTENER,
    AUTHORIZER,
    AUTO_CREATE,
    SASL_MECHANISMS,
    INTER_BROKER_MECHANISM,
)
"""The configs of running brokers that the plan looks at."""
OWN_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The authorizer whose rules stand in the metadata log, where the tier finds them."""


class Wishes(NamedTuple):
    """How the tier is to join."""

    first_id: int = FIRST_ID_DEFAULT
    """The broker id of the first node; the others follow it."""
    nodes: int = NODES_DEFAULT
    listeners: tuple[str, ...] = LISTENERS_DEFAULT
    """The names of the listeners that each node has."""
    protocol: str | None = None
    """The security protocol of these listeners; None: nobody has said yet."""
    super_users: frozenset[str] | None = None
    """The users who may do everything at the tier; None: nobody has said yet."""
    users: frozenset[str] = frozenset()
    """The users as whom the tier logs in."""
    asks_for_rights: bool | None = None
    """Whether the tier asks for clients' rights; None: it was not made yet, and will do as brokers do."""
    apart: frozenset[str] = frozenset()
    """The listeners that have another port than the first one, and speak there what brokers do."""

    @property
    def ids(self) -> range:
        return range(self.first_id, self.first_id + self.nodes)


class GroupRow(NamedTuple):
    """A group as its coordinator lists it."""

    group: str
    type: str
    state: str


class AskedBroker(NamedTuple):
    """A broker that Metadata names, and what it said when it was asked itself."""

    broker_id: int
    host: str
    port: int
    configs: Mapping[str, str] = {}
    groups: tuple[GroupRow, ...] = ()
    size_bytes: Mapping[int, int] = {}
    """Offsets partition -> the size of its replica there."""
    problems: tuple[str, ...] = ()
    """What it could not be asked, and why."""
    answers: bool = True
    """Whether it could be asked anything."""


class OffsetsPartition(NamedTuple):
    """A partition of `__consumer_offsets`."""

    number: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Counted(NamedTuple):
    """How many committed offsets there are, as far as they were counted."""

    offsets: int = 0
    groups: int = 0
    """The groups whose offsets were counted."""
    problem: str | None = None
    """Why not all were counted; None if all were."""


class Sample(NamedTuple):
    """What was fetched to see how fast it goes."""

    size_bytes: int
    seconds: float


class Quorum(NamedTuple):
    """What the controllers say."""

    cluster_id: str | None
    active_id: int
    address: str
    ids: tuple[int, ...]
    """The ids of all controllers that vote."""


class Facts(NamedTuple):
    """All that was seen."""

    cluster_id: str
    is_kraft: bool = True
    features: Mapping[str, int] = {}
    """The finalized features with their levels."""
    supported: Mapping[str, int] = {}
    """The features with the highest level that the controller's software supports; {} if it did not say."""
    brokers: tuple[AskedBroker, ...] = ()
    partitions: tuple[OffsetsPartition, ...] | None = None
    """The partitions of `__consumer_offsets`; None if there is no such topic yet, or if it may not be
    seen."""
    is_topic_seen: bool = True
    """Whether the user may see `__consumer_offsets`."""
    counted: Counted = Counted()
    missing_rights: tuple[Right, ...] = ()
    quorum: Quorum | None = None
    """What the controllers say; None if they were not asked."""
    image: ClusterImage | None = None
    """The cluster's metadata; None if its log could not be read."""
    log_problem: str | None = None
    """Why the metadata log could not be read."""
    sample: Sample | None = None

    @property
    def groups(self) -> list[GroupRow]:
        return sorted({row.group: row for broker in self.brokers for row in broker.groups}.values())

    @property
    def size_bytes(self) -> int | None:
        """Return how much a take-over has to fetch: the leaders' replicas; None if a leader did not say."""
        by_id = {broker.broker_id: broker.size_bytes for broker in self.brokers}
        total = 0
        for partition in self.partitions or ():
            size_bytes = by_id.get(partition.leader, {}).get(partition.number)
            if size_bytes is None:
                return None
            total += size_bytes
        return total

    def config_values(self, name: str) -> dict[str, list[int]]:
        """Return each value that a config of running brokers has, with the brokers that have it."""
        found: dict[str, list[int]] = {}
        for broker in self.brokers:
            if name in broker.configs:
                found.setdefault(broker.configs[name], []).append(broker.broker_id)
        return found
