"""What the controller knows. It is written by `apply` alone, the same on every replica of the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from actors.ground.acl import Acl
from actors.ground.changeable import in_force
from actors.ground.contract import Key, Record, Value
from actors.ground.features import Features
from actors.ground.image import (
    ACTIVE,
    NO_NODE,
    MetadataImage,
    NodeHome,
    NodeImage,
    ScramCredential,
    TopicImage,
)
from actors.ground.settings import GroupSettings
from actors.ground.snapshot_build import live_items
from actors.ground.spec import CONTROLLER_GROUP, BrokerSettings
from actors.ground.topic_names import collision_name
from actors.ground.upstream_goal import DETACHED
from actors.metadata.records import (
    ACL,
    BROKER_CONFIG,
    CONTROLLER,
    FEATURE_LEVELS,
    GROUP_CONFIG,
    GROUP_PLACEMENT,
    IMAGE_VERSION,
    NODE,
    NODE_HOME,
    NODE_IDS,
    OFFSETS_LEADER,
    PRODUCER_IDS,
    SCRAM_CREDENTIAL,
    SPLIT,
    TOPIC,
    UPSTREAM_GOAL,
    AclKey,
    AclValue,
    BrokerConfigKey,
    BrokerConfigValue,
    ControllerValue,
    FeaturesValue,
    GroupConfigKey,
    GroupConfigValue,
    GroupPlacementKey,
    GroupPlacementValue,
    ImageVersionValue,
    NodeHomeKey,
    NodeIdsValue,
    NodeKey,
    NodeValue,
    OffsetsLeaderKey,
    OffsetsLeaderValue,
    ProducerIdsValue,
    ScramCredentialKey,
    ScramCredentialValue,
    SingletonKey,
    SplitValue,
    TopicKey,
    TopicValue,
    UpstreamGoalValue,
)

K = TypeVar("K")
V = TypeVar("V")


class MetadataState:
    """The state of the controller. `new_topic_id` yields 16 bytes that no topic has had before (a random
    UUID)."""

    def __init__(
        self,
        settings: BrokerSettings,
        new_topic_id: Callable[[], bytes],
        *,
        cluster_id: str,
        offsets_partitions: int,
        group_settings: GroupSettings,
    ) -> None:
        self.settings = settings
        self.started_group_settings = group_settings
        """The coordinators' settings that the tier was started with."""
        self.new_topic_id = new_topic_id
        self.cluster_id = cluster_id
        self._first_offsets_partitions = offsets_partitions

        # The replicated state: one dict per kind of record.
        self.singletons: dict[int, Value] = {}
        self.nodes: dict[int, NodeValue] = {}
        self.homes: dict[int, NodeHome] = {}
        self.offsets_leaders: dict[int, OffsetsLeaderValue] = {}
        self.topics: dict[str, TopicValue] = {}
        self.placements: dict[str, GroupPlacementValue] = {}
        """Raft group -> where its replicas should be."""
        self.group_configs: dict[str, GroupConfigValue] = {}
        """Group id -> the group's own configs; the group may not exist."""
        self.broker_configs: dict[str, BrokerConfigValue] = {}
        """Node id as text, or "" for all nodes -> the settings that were changed at run time (W43)."""
        self.acls: dict[Acl, AclValue] = {}
        self.credentials: dict[tuple[str, str], ScramCredentialValue] = {}
        """(user, mechanism) -> the user's credential."""

        # The derived state, made from the above by `apply`.
        self.topic_names: dict[bytes, str] = {}
        self.colliding_names: dict[str, set[str]] = {}
        """Name with "." and "_" made equal -> the topics of that name; only names that have one of them."""
        self.partition_total = 0
        self._topic_images: dict[str, TopicImage] = {}
        self._image: MetadataImage | None = None

    @property
    def version(self) -> int:
        value = self.singletons.get(IMAGE_VERSION)
        return 0 if value is None else ImageVersionValue(*value).version

    def broker_overrides(self) -> dict[str, dict[str, str]]:
        """Return the settings that were changed at run time, as `changeable.in_force` takes them."""
        return {broker: dict(own.configs) for broker, own in self.broker_configs.items()}

    @property
    def group_settings(self) -> GroupSettings:
        """Return the coordinators' settings on nodes without settings of their own: they bound what a group's
        own configs may be (A19)."""
        return in_force(self.started_group_settings, self.broker_overrides())

    @property
    def split(self) -> SplitValue | None:
        """Return how far the last split of the offsets partitions is; None: there was none."""
        value = self.singletons.get(SPLIT)
        return None if value is None else SplitValue(*value)

    @property
    def upstream_goal(self) -> int:
        value = self.singletons.get(UPSTREAM_GOAL)
        return DETACHED if value is None else UpstreamGoalValue(*value).goal

    @property
    def offsets_partitions(self) -> int:
        """Return the number of offsets partitions, those that serve nobody yet among them."""
        split = self.split
        return self._first_offsets_partitions if split is None else split.partitions

    @property
    def next_producer_id(self) -> int:
        value = self.singletons.get(PRODUCER_IDS)
        return 0 if value is None else ProducerIdsValue(*value).next_producer_id

    @property
    def features(self) -> Features:
        value = self.singletons.get(FEATURE_LEVELS)
        return Features() if value is None else Features(*FeaturesValue(*value))

    @property
    def controller_node_id(self) -> int:
        value = self.singletons.get(CONTROLLER)
        return NO_NODE if value is None else ControllerValue(*value).node_id

    def alive_node_ids(self) -> list[int]:
        """Return the ids of the living nodes, ascending."""
        return sorted(node_id for node_id, node in self.nodes.items() if node.alive)

    def open_node_ids(self) -> list[int]:
        """Return the ids of the nodes that may be given something, ascending: the living ones, without those
        that are to give up what they have while there are others."""
        alive = self.alive_node_ids()
        return [node_id for node_id in alive if self.duty(node_id) == ACTIVE] or alive

    def duty(self, node_id: int) -> int:
        """Return a node's duty, ACTIVE or another one."""
        home = self.homes.get(node_id)
        return ACTIVE if home is None else home.duty

    @property
    def next_node_id(self) -> int:
        """Return the lowest id that no node has had."""
        value = self.singletons.get(NODE_IDS)
        noted = 0 if value is None else NodeIdsValue(*value).next_node_id
        return max(noted, 1 + max(self.nodes, default=0))

    @property
    def nodes_changed(self) -> bool:
        """Return whether the nodes are, or may be, others than the tier began with."""
        return bool(self.homes) or NODE_IDS in self.singletons

    def was_removed(self, node_id: int) -> bool:
        """Return whether a node of this id was in the tier and is no more."""
        return NODE_IDS in self.singletons and node_id < self.next_node_id and node_id not in self.nodes

    def apply(self, key: Key, value: Value | None) -> Value | None:
        """Apply a record and return the value that it replaced. Kinds of a newer version are skipped."""
        applier = _APPLIERS.get(key[0])
        if applier is None:
            return None
        self._image = None
        return applier(self, key, value)

    def records(self) -> Iterator[Record]:
        """Yield all records, sorted, so that replicas with equal state give equal records. The state may
        change under way."""
        for kind, value in live_items(self.singletons, sorted(self.singletons)):
            yield Record(SingletonKey(kind), value)
        for node_id, node in live_items(self.nodes, sorted(self.nodes)):
            yield Record(NodeKey(NODE, "", node_id), node)
        for node_id, home in live_items(self.homes, sorted(self.homes)):
            yield Record(NodeHomeKey(NODE_HOME, "", node_id), home)
        for partition, leader in live_items(self.offsets_leaders, sorted(self.offsets_leaders)):
            yield Record(OffsetsLeaderKey(OFFSETS_LEADER, "", partition), leader)
        for name, topic in live_items(self.topics, sorted(self.topics)):
            yield Record(TopicKey(TOPIC, name), topic)
        for group, placed in live_items(self.placements, sorted(self.placements)):
            yield Record(GroupPlacementKey(GROUP_PLACEMENT, "", group), placed)
        for group_id, configured in live_items(self.group_configs, sorted(self.group_configs)):
            yield Record(GroupConfigKey(GROUP_CONFIG, "", group_id), configured)
        for broker, changed in live_items(self.broker_configs, sorted(self.broker_configs)):
            yield Record(BrokerConfigKey(BROKER_CONFIG, "", broker), changed)
        for acl, nothing in live_items(self.acls, sorted(self.acls)):
            yield Record(AclKey(ACL, "", acl), nothing)
        for user, credential in live_items(self.credentials, sorted(self.credentials)):
            yield Record(ScramCredentialKey(SCRAM_CREDENTIAL, "", *user), credential)

    def image(self) -> MetadataImage:
        """Return the image of this state, built once for each change."""
        if self._image is None:
            self._image = MetadataImage(
                version=self.version,
                cluster_id=self.cluster_id,
                controller_node_id=self.controller_node_id,
                nodes=tuple(
                    NodeImage(node_id, node.host, node.port, node.rack, bool(node.alive))
                    for node_id, node in sorted(self.nodes.items())
                ),
                topics=tuple(self._topic_images[name] for name in sorted(self._topic_images)),
                offsets_leaders=tuple(
                    leader.node_id if (leader := self.offsets_leaders.get(partition)) else NO_NODE
                    for partition in range(self.offsets_partitions)
                ),
                unmoved=() if self.split is None else self.split.unmoved,
                undropped=() if self.split is None else self.split.undropped,
                controllers=self._controllers(),
                acls=tuple(sorted(self.acls)),
                credentials=self._credentials(),
                broker_configs=self.broker_overrides(),
                features=self.features,
                group_configs={group_id: dict(own.configs) for group_id, own in self.group_configs.items()},
                homes=dict(self.homes),
                upstream_goal=self.upstream_goal,
            )
        return self._image

    def _credentials(self) -> tuple[ScramCredential, ...]:
        return tuple(
            ScramCredential(user, mechanism, *self.credentials[user, mechanism])
            for user, mechanism in sorted(self.credentials)
        )

    def _controllers(self) -> tuple[int, ...]:
        placed = self.placements.get(CONTROLLER_GROUP)
        return () if placed is None else tuple(copy.replica_id for copy in (*placed.copies, *placed.leaving))

    def apply_singleton(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.singletons, key[0], value)

    def apply_node(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.nodes, key[2], None if value is None else NodeValue(*value))

    def apply_home(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.homes, key[2], None if value is None else NodeHome(*value))

    def apply_offsets_leader(self, key: Key, value: Value | None) -> Value | None:
        leader = None if value is None else OffsetsLeaderValue(*value)
        return _put(self.offsets_leaders, key[2], leader)

    def apply_placement(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.placements, key[2], None if value is None else GroupPlacementValue.of(value))

    def apply_group_config(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.group_configs, key[2], None if value is None else GroupConfigValue(*value))

    def apply_broker_config(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.broker_configs, key[2], None if value is None else BrokerConfigValue(*value))

    def apply_acl(self, key: Key, value: Value | None) -> Value | None:
        return _put(self.acls, Acl(*key[2]), None if value is None else AclValue())

    def apply_credential(self, key: Key, value: Value | None) -> Value | None:
        credential = None if value is None else ScramCredentialValue(*value)
        return _put(self.credentials, (key[2], key[3]), credential)

    def apply_topic(self, key: Key, value: Value | None) -> Value | None:
        name: str = key[1]
        topic = None if value is None else TopicValue(*value)
        replaced = _put(self.topics, name, topic)
        collision = collision_name(name)
        if replaced is not None:
            self.partition_total -= len(replaced.partition_leaders)
            self.topic_names.pop(replaced.topic_id, None)
            self._topic_images.pop(name, None)
            if collision is not None:
                _drop_from_set(self.colliding_names, collision, name)
        if topic is not None:
            self.partition_total += len(topic.partition_leaders)
            self.topic_names[topic.topic_id] = name
            self._topic_images[name] = TopicImage(
                topic.topic_id, name, topic.partition_leaders, topic.configs
            )
            if collision is not None:
                self.colliding_names.setdefault(collision, set()).add(name)
        return replaced


def _put(values: dict[K, V], key: K, value: V | None) -> V | None:
    """Set a value, or remove it when `value` is None. Return what was there."""
    replaced = values.pop(key, None)
    if value is not None:
        values[key] = value
    return replaced


def _drop_from_set(sets: dict[str, set[str]], key: str, member: str) -> None:
    members = sets.get(key)
    if members is not None:
        members.discard(member)
        if not members:
            del sets[key]


_APPLIERS: dict[int, Callable[[MetadataState, Key, Value | None], Value | None]] = {
    IMAGE_VERSION: MetadataState.apply_singleton,
    CONTROLLER: MetadataState.apply_singleton,
    PRODUCER_IDS: MetadataState.apply_singleton,
    FEATURE_LEVELS: MetadataState.apply_singleton,
    NODE_IDS: MetadataState.apply_singleton,
    SPLIT: MetadataState.apply_singleton,
    UPSTREAM_GOAL: MetadataState.apply_singleton,
    NODE: MetadataState.apply_node,
    NODE_HOME: MetadataState.apply_home,
    OFFSETS_LEADER: MetadataState.apply_offsets_leader,
    TOPIC: MetadataState.apply_topic,
    GROUP_PLACEMENT: MetadataState.apply_placement,
    GROUP_CONFIG: MetadataState.apply_group_config,
    BROKER_CONFIG: MetadataState.apply_broker_config,
    ACL: MetadataState.apply_acl,
    SCRAM_CREDENTIAL: MetadataState.apply_credential,
}
