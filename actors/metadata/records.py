"""The controller's replicated records, as NamedTuples of plain types (msgpack carries them as they are).

The kinds are ours and start at 201, apart from the coordinator's: both shards live in the same machinery.
The second field of a key is the topic, or "" for what belongs to no topic.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.ground.acl import Acl
from actors.ground.spec import Copies, Copy

IMAGE_VERSION = 201
CONTROLLER = 202
PRODUCER_IDS = 203
NODE = 204
OFFSETS_LEADER = 205
TOPIC = 206
GROUP_PLACEMENT = 207
GROUP_CONFIG = 208
ACL = 209
SCRAM_CREDENTIAL = 210
BROKER_CONFIG = 211
FEATURE_LEVELS = 212
SPLIT = 213
UPSTREAM_GOAL = 214
NODE_HOME = 221
NODE_IDS = 222


class SingletonKey(NamedTuple):
    """The key of IMAGE_VERSION, CONTROLLER, PRODUCER_IDS, FEATURE_LEVELS, SPLIT, UPSTREAM_GOAL and NODE_IDS:
    there is one record of each."""

    kind: int
    topic: str = ""


class ImageVersionValue(NamedTuple):
    version: int
    """The version of the image, `MetadataImage.version`."""


class ControllerValue(NamedTuple):
    node_id: int


class ProducerIdsValue(NamedTuple):
    next_producer_id: int
    """The first producer id that no block has been given out for."""


class SplitValue(NamedTuple):
    """How far the last split of the offsets partitions is."""

    partitions: int
    """How many offsets partitions there are, those that serve nobody yet among them."""
    unmoved: tuple[int, ...]
    """The parents whose groups have not moved to their children yet, ascending."""
    undropped: tuple[int, ...]
    """The parents that still hold what has moved, or is to move, ascending; (): the split is over."""


class UpstreamGoalValue(NamedTuple):
    goal: int
    """What shall become of the groups of the Kafka cluster upstream, of `actors.ground.upstream_goal`."""


class NodeKey(NamedTuple):
    kind: int
    topic: str
    node_id: int


class NodeValue(NamedTuple):
    host: str
    port: int
    rack: str | None
    alive: int
    """Whether the node is alive: 1 or 0."""


class NodeHomeKey(NamedTuple):
    """The key of where a node's actors are, a NodeHome. Nodes that the tier began with have none until
    something about them changes."""

    kind: int
    topic: str
    node_id: int


class NodeIdsValue(NamedTuple):
    next_node_id: int
    """The id of the next node: every lower one that is no node's belonged to one that was removed."""


class OffsetsLeaderKey(NamedTuple):
    kind: int
    topic: str
    partition: int


class OffsetsLeaderValue(NamedTuple):
    node_id: int
    term: int
    """The Raft term in which the node leads the offsets partition."""


class TopicKey(NamedTuple):
    kind: int
    topic: str


class TopicValue(NamedTuple):
    topic_id: bytes
    """The topic's id: 16 bytes."""
    partition_leaders: tuple[int, ...]
    configs: tuple[tuple[str, str], ...]
    """The configs that the topic does not have by default, sorted by name."""


class GroupConfigKey(NamedTuple):
    kind: int
    topic: str
    group_id: str


class GroupConfigValue(NamedTuple):
    configs: tuple[tuple[str, str], ...]
    """The group's own configs, sorted by name; never empty (A19)."""


class GroupPlacementKey(NamedTuple):
    kind: int
    topic: str
    group: str
    """The name of the Raft group: "controller" or "partition-<p>"."""


class GroupPlacementValue(NamedTuple):
    copies: Copies
    """The replicas that the Raft group should have; the first is the preferred leader."""
    next_replica_id: int
    """The number of the group's next new replica: none has had it, nor a higher one."""
    leaving: Copies = ()
    """The replicas that are not wanted any more; each stays until the group's leader has let it go and its
    actor is stopped."""

    @classmethod
    def of(cls, value: tuple[object, ...]) -> GroupPlacementValue:
        """Make the value out of plain tuples."""
        copies, next_replica_id, leaving = cls(*value)  # type: ignore[arg-type]
        return cls(tuple(Copy(*each) for each in copies), next_replica_id, tuple(Copy(*c) for c in leaving))


class AclKey(NamedTuple):
    """The key of an access control entry; its value is empty, for the key says it all."""

    kind: int
    topic: str
    acl: Acl


class AclValue(NamedTuple):
    """The value of an access control entry, of which nothing is known but its key."""


class ScramCredentialKey(NamedTuple):
    kind: int
    topic: str
    user: str
    mechanism: str


class ScramCredentialValue(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class BrokerConfigKey(NamedTuple):
    kind: int
    topic: str
    broker: str
    """The id of a node, or "" for all nodes."""


class BrokerConfigValue(NamedTuple):
    configs: tuple[tuple[str, str], ...]
    """The settings that were changed at run time, sorted by name; never empty (W43)."""


class FeaturesValue(NamedTuple):
    epoch: int
    changed: tuple[tuple[str, int], ...]
    """Name and level of the features that were changed, sorted by name (W44)."""
