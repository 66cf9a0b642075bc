"""The metadata image: an immutable, versioned snapshot of what the controller knows, held by every actor.

Nobody changes an image; the controller's shard makes the next one. `version` rises by one with every
change, so a receiver keeps the newest and drops the rest.
"""

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from actors.ground.acl import Acl
from actors.ground.features import Features
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, internal_topic_id

TopicId = bytes
"""A topic's UUID: 16 bytes, as they stand on the wire."""
NO_TOPIC_ID: TopicId = bytes(16)
"""The id that stands on the wire if a topic's id is not known."""
NO_NODE = -1
NO_CHANGES = Features()
"""The features of a tier in which nobody has changed one."""
INTERNAL_TOPIC_CONFIGS = {
    OFFSETS_TOPIC: (
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("segment.bytes", "104857600"),
    ),
    TRANSACTIONS_TOPIC: (
        ("cleanup.policy", "compact"),
        ("compression.type", "uncompressed"),
        ("min.insync.replicas", "1"),
        ("segment.bytes", "104857600"),
        ("unclean.leader.election.enable", "false"),
    ),
}
"""Internal topic -> the configs that Kafka gives to it on one broker: clients are shown one replica of each
partition, and tools would say of a partition with fewer than are required that it is in danger."""


DETACHED: Final = 0
"""The goal of a tier whose nodes are no brokers of a cluster upstream; `actors.ground.upstream_goal` has the
others."""


class NodeImage(NamedTuple):
    """One node as clients see it: a broker id with one advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    alive: bool = True
    """Whether the controller has heard of the node's broker lately. If not, the node leads no topic
    partition."""


ACTIVE, DRAINING, LOST, JOINING = 0, 1, 2, 3
"""A node's duty: to hold replicas, to give up those that it has, if its machine is gone for good, to be
replaced and forgotten, or, if it is new, to show first that it can be reached."""


AS_BEGUN = 0
"""The port in the home of a node that is where the tier's spec says."""


class NodeHome(NamedTuple):
    """Where a node's actors are, as far as clients are not told it, and the node's duty."""

    port: int
    """The port that the broker binds, or AS_BEGUN."""
    machine: str | None = None
    """The node's machine, as in NodeSpec."""
    ray_node: str | None = None
    duty: int = ACTIVE


class TopicImage(NamedTuple):
    """One topic. Its partition p is led by `partition_leaders[p]` (a node id)."""

    topic_id: TopicId
    name: str
    partition_leaders: tuple[int, ...]
    configs: tuple[tuple[str, str], ...] = ()
    internal: bool = False

    @property
    def partition_count(self) -> int:
        return len(self.partition_leaders)


class ScramCredential(NamedTuple):
    """What recognizes a user's password (RFC 5802); the password cannot be had from it."""

    user: str
    mechanism: str
    """The SASL mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512"."""
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Upstream(NamedTuple):
    """The Kafka cluster that the tier stands in front of, as far as actors have to know it beside its topics,
    configs, users and rights, which are in the image, too (`actors.upstream.tier_image`)."""

    offsets_topic_id: TopicId = NO_TOPIC_ID
    """The id of `__consumer_offsets` there; NO_TOPIC_ID if there is no such topic yet."""
    racks: Mapping[int, str | None] = MappingProxyType({})
    """The racks of the brokers that are no nodes of the tier, by the ids that partitions' leaders have."""


class MetadataImage:
    """Everything that Metadata, FindCoordinator and the coordinators need to know, at one version."""

    __slots__ = (
        "acls",
        "broker_configs",
        "cluster_id",
        "controller_node_id",
        "controllers",
        "credentials",
        "features",
        "group_configs",
        "homes",
        "nodes",
        "offsets_leaders",
        "topics",
        "topics_by_id",
        "undropped",
        "unmoved",
        "upstream",
        "upstream_goal",
        "version",
    )

    def __init__(
        self,
        *,
        version: int = 0,
        cluster_id: str = "",
        controller_node_id: int = NO_NODE,
        nodes: tuple[NodeImage, ...] = (),
        topics: tuple[TopicImage, ...] = (),
        offsets_leaders: tuple[int, ...] = (),
        controllers: tuple[int, ...] = (),
        group_configs: Mapping[str, Mapping[str, str]] | None = None,
        broker_configs: Mapping[str, Mapping[str, str]] | None = None,
        features: Features = NO_CHANGES,
        acls: tuple[Acl, ...] = (),
        credentials: tuple[ScramCredential, ...] = (),
        homes: Mapping[int, NodeHome] | None = None,
        unmoved: tuple[int, ...] = (),
        undropped: tuple[int, ...] = (),
        upstream_goal: int = DETACHED,
        upstream: Upstream | None = None,
    ) -> None:
        self.version = version
        self.cluster_id = cluster_id
        self.controller_node_id = controller_node_id
        self.nodes = {node.node_id: node for node in nodes}
        self.homes: Mapping[int, NodeHome] = homes or {}
        """Node id -> where its actors are, for nodes that were added or changed since the tier began."""
        self.topics = {topic.name: topic for topic in topics}
        self.upstream = upstream
        """The Kafka cluster that the tier stands in front of; None: there is none."""
        if offsets_leaders:
            # The offsets partitions are topics too, from the beginning on (W51).
            self.topics |= _internal_topics(self, offsets_leaders)
        self.topics_by_id = {topic.topic_id: topic for topic in self.topics.values()}
        self.offsets_leaders = offsets_leaders
        """The node id of each offsets partition's leader as the controller last heard, or NO_NODE. The length
        is the number of offsets partitions. Brokers overlay fresher news from their own replicas."""
        self.undropped = undropped
        """The offsets partitions that are being split, ascending; (): no split runs."""
        self.unmoved = unmoved
        """The ones of them whose groups have not moved yet: see `actors.protocol.partitioning`."""
        self.upstream_goal = upstream_goal
        """What shall become of the groups of the Kafka cluster that the tier stands in front of."""
        self.controllers = controllers
        """The numbers of the controller's replicas, the leaving ones too; () before they are known."""
        self.group_configs: Mapping[str, Mapping[str, str]] = group_configs or {}
        """Group id -> the group's own configs, as they were set (A19)."""
        self.broker_configs: Mapping[str, Mapping[str, str]] = broker_configs or {}
        """Node id as text, or "" for all nodes -> the settings that were changed at run time (W43)."""
        self.features = features
        self.acls = acls
        self.credentials = {(each.user, each.mechanism): each for each in credentials}

    @property
    def created_topics(self) -> dict[str, TopicImage]:
        """Return the topics that somebody has created, which are all but the internal ones."""
        return {name: topic for name, topic in self.topics.items() if not topic.internal}

    def duty(self, node_id: int) -> int:
        """Return a node's duty, ACTIVE or another one."""
        home = self.homes.get(node_id)
        return ACTIVE if home is None else home.duty

    def led_by(self, offsets_leaders: Mapping[int, int]) -> Self:
        """Return this image with fresher news of who leads offsets partitions."""
        leaders = tuple(offsets_leaders.get(p, leader) for p, leader in enumerate(self.offsets_leaders))
        if leaders == self.offsets_leaders:
            return self
        image = copy(self)
        image.offsets_leaders = leaders
        internal = _internal_topics(self, leaders)
        image.topics = self.topics | internal
        image.topics_by_id = self.topics_by_id | {topic.topic_id: topic for topic in internal.values()}
        return image

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Return the node id of the leader of a topic's partition, or NO_NODE; None if there is no such
        partition."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < known.partition_count:
            return None
        return known.partition_leaders[partition]

    def rack_of(self, leader: int) -> str | None:
        """Return the rack of whoever leads a topic's partition, be it a node or a broker of the cluster
        upstream; None if it has none, or is not known."""
        node = self.nodes.get(leader)
        if node is None:
            return None if self.upstream is None else self.upstream.racks.get(leader)
        return node.rack


def _internal_topics(image: MetadataImage, leaders: tuple[int, ...]) -> dict[str, TopicImage]:
    """Return the internal topics that are the tier's own. Transactional ids are coordinated upstream, if
    there is a cluster: then its `__transaction_state` is a topic like all others here."""
    names = INTERNAL_TOPIC_CONFIGS if image.upstream is None else (OFFSETS_TOPIC,)
    ids = {name: internal_topic_id(image.cluster_id, name) for name in names}
    if image.upstream is not None and image.upstream.offsets_topic_id != NO_TOPIC_ID:
        ids[OFFSETS_TOPIC] = image.upstream.offsets_topic_id
    return {
        name: TopicImage(topic_id, name, leaders, INTERNAL_TOPIC_CONFIGS[name], internal=True)
        for name, topic_id in ids.items()
    }
