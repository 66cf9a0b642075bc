"""The followed image: what the upstream cluster's metadata log says, as of one offset. PURE.

"Upstream" is the Kafka cluster that the tier stands in front of. Its controllers write every change of
brokers, topics, configs, users and rights into one log, `__cluster_metadata`; who applies that log has what
Kafka's brokers have, exact epochs included, and needs to poll nobody.

Owner: an image is changed by `actors.upstream.applying` alone, which the follower calls for one batch after
the other, without a pause within a batch. Everybody else only reads, between two batches, and keeps no
reference to a dict in it over a pause: a snapshot puts a new image in the place of the old one. Values inside
(brokers, partitions) are immutable and may be kept; they have the names of Kafka's records. Ids that are
UUIDs are 16 bytes, as everywhere in the tier. A cluster with 10,000 partitions would make copies of the
dicts cost more than the change itself.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from actors.ground.acl import Acl
from actors.ground.image import ScramCredential, TopicId
from actors.upstream.control_records import Voter

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""The type of a broker's configs (ConfigResource.Type), as TOPIC_RESOURCE is of a topic's."""
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
EVERY_BROKER: Final = ""
"""The name under which configs hold for all brokers."""
NO_LEADER: Final = -1
NO_OFFSET: Final = -1
UNKNOWN_KINDS_MAX: Final = 100
"""How many kinds of records that nobody understands are told apart; the others are counted together."""
_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})
Levels = tuple[tuple[str, int, int], ...]
"""The features that a broker or controller has: name, lowest and highest level."""
QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a quota concerns: (type, name) pairs, sorted by type; the name is None for the type's default."""


class Endpoint(NamedTuple):
    """One listener of a broker or controller."""

    name: str
    host: str
    port: int
    security_protocol: int = 0
    """Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class Broker(NamedTuple):
    """A broker as it registered, and what became of it since. One that is gone stays, fenced, until somebody
    unregisters it: its id is taken."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Levels
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    """The directories that are online. There are none before metadata.version 3.7-IV2."""
    cordoned_log_dirs: tuple[bytes, ...]
    """The directories on which nothing new is placed (KIP-1066)."""

    def address(self, listener: str) -> tuple[str, int] | None:
        """Return where the broker's listener of a name is; None if it has none of that name."""
        return next(((each.host, each.port) for each in self.endpoints if each.name == listener), None)

    @property
    def is_cordoned(self) -> bool:
        """Whether nothing new can be placed on this broker."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs)


class Controller(NamedTuple):
    """A controller as it registered (KIP-919)."""

    controller_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Levels


class Partition(NamedTuple):
    """The state of a partition as the controller decided it."""

    replicas: tuple[int, ...]
    """The replicas in order of preference: the first one is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    """The leader's broker id, or NO_LEADER."""
    leader_epoch: int
    partition_epoch: int
    """A number that rises with every change: AlterPartition has to name it."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    """The replicas outside the ISR that have everything committed (KIP-966)."""
    last_known_leaders: tuple[int, ...] = ()
    """Who led last if nobody in the two sets above is left (KIP-966, "last known ELR")."""
    is_recovering: bool = False
    """Whether the leader was elected uncleanly and has not recovered yet."""
    directories: tuple[bytes, ...] = ()
    """The log directory of each replica, in the order of `replicas`."""


class Topic(NamedTuple):
    """A topic; `partitions` belongs to the image (see above)."""

    topic_id: TopicId
    name: str
    partitions: dict[int, Partition]


class DelegationToken(NamedTuple):
    """A delegation token (KIP-48) without its HMAC, which is computed from a secret that only brokers
    know."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    latest_end_ms: int
    ends_ms: int


class OpenTransaction:
    """A transaction of the metadata log that has not ended: the values of its records, in their order."""

    __slots__ = ("size_bytes", "values")

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.size_bytes = 0


class Unknown(NamedTuple):
    """A kind of record that could not be read."""

    what: str
    metadata_version: int
    """The level of metadata.version at which it came: who reads that level reads the record."""


class ClusterImage:
    """The upstream cluster's metadata at `offset`."""

    __slots__ = (
        "acls",
        "brokers",
        "changes",
        "configs",
        "controllers",
        "credentials",
        "delegation_tokens",
        "epoch",
        "features",
        "leader_id",
        "next_producer_id",
        "offset",
        "open_transaction",
        "quotas",
        "topic_ids",
        "topics",
        "unknown",
        "voters",
        "zk_migration_state",
    )

    def __init__(self) -> None:
        self.offset = NO_OFFSET
        """The offset of the last record that is in the image. While a transaction of the metadata log is
        open, it stays in front of it."""
        self.epoch = 0
        """The leader epoch of the batch that had that record."""
        self.changes = 0
        """How many records have been applied that say something. A controller that has nothing to say writes
        records of no operation, twice a second."""
        self.brokers: dict[int, Broker] = {}
        self.controllers: dict[int, Controller] = {}
        self.topics: dict[TopicId, Topic] = {}
        self.topic_ids: dict[str, TopicId] = {}
        """Name -> id of each topic."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """(type, name) of a resource -> its configs, as they were set. Resources without any are not
        there."""
        self.features: dict[str, int] = {}
        """Finalized features with their levels; those at level 0 are not there."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.credentials: dict[tuple[str, str], ScramCredential] = {}
        """(user, mechanism) -> what recognizes the user's password."""
        self.acls: dict[bytes, Acl] = {}
        """The id of a rule -> the rule."""
        self.delegation_tokens: dict[str, DelegationToken] = {}
        self.next_producer_id = 0
        self.zk_migration_state = 0
        self.unknown: Counter[Unknown] = Counter()
        """Kinds of records that could not be read -> how many there were. As long as it is empty, the image
        is whole."""
        self.leader_id = NO_LEADER
        """The controller that became the active one last, as the log says; there may be a newer one by
        now."""
        self.voters: dict[int, Voter] = {}
        """The controllers that vote, if their quorum can change (kraft.version 1)."""
        self.open_transaction: OpenTransaction | None = None

    def topic(self, name: str) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """Return the configs that were set for a topic."""
        return self.configs.get((TOPIC_RESOURCE, name), _NO_CONFIGS)

    def broker_configs(self, broker_id: int | None = None) -> Mapping[str, str]:
        """Return the configs that were set while brokers ran, for one of them alone or for all."""
        name = EVERY_BROKER if broker_id is None else str(broker_id)
        return self.configs.get((BROKER_RESOURCE, name), _NO_CONFIGS)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """Return the configs that were set for a group (KIP-848)."""
        return self.configs.get((GROUP_RESOURCE, group_id), _NO_CONFIGS)
