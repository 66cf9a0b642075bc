"""The metadata shard: the controller's replicated state behind the `Shard` contract.

This file only dispatches. The rules live in `topics`, `configs`, `group_configs`, `broker_configs`,
`features`, `acls`, `credentials`, `nodes`, `membership`, `replicas`, `split` and `upstream_goal`; each takes
the state and a command and returns the records and the answer. Nothing here is volatile and nothing is timed:
whether a node is alive is judged by the controller's actor, which knows a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, assert_never

from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.ground.image import MetadataImage, NodeHome
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings
from actors.metadata import (
    acls,
    broker_configs,
    configs,
    credentials,
    features,
    group_configs,
    membership,
    nodes,
    replicas,
    split,
    topics,
    upstream_goal,
)
from actors.metadata.commands import (
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterCredentials,
    AlterGroupConfigs,
    AlterTopicConfigs,
    Command,
    CommandResult,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    ForgetReplica,
    FoundTier,
    Outcome,
    PlaceGroup,
    RegisterNode,
    ReportController,
    ReportLeader,
    RestoreTopics,
    SeedPlacement,
    SetNodeAlive,
    UpdateFeatures,
)
from actors.metadata.node_commands import AddNode, MoveNode, RemoveNode, SetNodeDuty
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
from actors.metadata.restore import restore_topics
from actors.metadata.split_commands import NoteDropped, NoteMoved, SplitPartitions
from actors.metadata.state import MetadataState
from actors.metadata.upstream_commands import SetUpstreamGoal

RECORD_TYPES = {
    IMAGE_VERSION: (SingletonKey, ImageVersionValue),
    CONTROLLER: (SingletonKey, ControllerValue),
    PRODUCER_IDS: (SingletonKey, ProducerIdsValue),
    FEATURE_LEVELS: (SingletonKey, FeaturesValue),
    SPLIT: (SingletonKey, SplitValue),
    UPSTREAM_GOAL: (SingletonKey, UpstreamGoalValue),
    NODE: (NodeKey, NodeValue),
    NODE_HOME: (NodeHomeKey, NodeHome),
    NODE_IDS: (SingletonKey, NodeIdsValue),
    OFFSETS_LEADER: (OffsetsLeaderKey, OffsetsLeaderValue),
    TOPIC: (TopicKey, TopicValue),
    GROUP_PLACEMENT: (GroupPlacementKey, GroupPlacementValue),
    ACL: (AclKey, AclValue),
    SCRAM_CREDENTIAL: (ScramCredentialKey, ScramCredentialValue),
    GROUP_CONFIG: (GroupConfigKey, GroupConfigValue),
    BROKER_CONFIG: (BrokerConfigKey, BrokerConfigValue),
}
"""Kind of record -> (key class, value class)."""


class MetadataShard:
    """The metadata shard behind `actors.ground.contract.Shard`. `new_id` yields 16 bytes that no topic has
    had before.

    `Request.body` is a `Command`; `Reply.body` is the `CommandResult` that belongs to it.
    """

    def __init__(
        self,
        *,
        cluster_id: str,
        offsets_partitions: int,
        settings: BrokerSettings,
        new_id: Callable[[], bytes],
        group_settings: GroupSettings | None = None,
    ) -> None:
        self.state = MetadataState(
            settings,
            new_id,
            cluster_id=cluster_id,
            offsets_partitions=offsets_partitions,
            group_settings=group_settings or GroupSettings(),
        )

    def image(self) -> MetadataImage:
        """Return the image of the applied state. On a leader this includes what is decided and not yet
        committed, so the host passes it on only when nothing is. It is built once for each change."""
        return self.state.image()

    @property
    def next_deadline_ms(self) -> int | None:
        return None

    def handle(self, request: Request, now_ms: int) -> Result:
        records, answer = _decide(self.state, request.body)
        # Producer ids are no part of the image: to give out a block makes no newer one.
        if any(record.key[0] != PRODUCER_IDS for record in records):
            version = ImageVersionValue(self.state.version + 1)
            records.append(Record(SingletonKey(IMAGE_VERSION), version))
        return Result(records=records, replies=(Reply(request.token, answer),))

    def expire(self, now_ms: int) -> Result:
        return NOTHING

    def apply(self, key: Key, value: Value | None) -> Value | None:
        return self.state.apply(key, value)

    def singles(self, key: Key, replaced: Value | None) -> Iterable[tuple[Key, Value | None]]:
        return ((key, replaced),)

    def one_by_one(self, key: Key, value: Value) -> Iterable[tuple[Key, Value]]:
        return ((key, value),)

    def records(self) -> Iterator[Record]:
        return self.state.records()

    def on_elected(self, now_ms: int) -> Result:
        """Do nothing: no state is volatile, so none is to be built."""
        return NOTHING

    def on_resigned(self) -> None:
        """Do nothing: no state is volatile, so none is to be dropped."""

    def on_metadata(self, image: MetadataImage, now_ms: int) -> Result:
        """Do nothing: the images come from this shard."""
        return NOTHING

    def refusal(self, request: Request, error_code: int) -> Any:
        return Outcome(error_code)


def _decide(state: MetadataState, command: Command) -> tuple[list[Record], CommandResult]:
    match command:
        case CreateTopics():
            return topics.create_topics(state, command)
        case DeleteTopics():
            return topics.delete_topics(state, command)
        case CreatePartitions():
            return topics.create_partitions(state, command)
        case AlterTopicConfigs():
            return configs.alter_topic_configs(state, command)
        case AlterGroupConfigs():
            return group_configs.alter_group_configs(state, command)
        case AlterBrokerConfigs():
            return broker_configs.alter_broker_configs(state, command)
        case UpdateFeatures():
            return features.update_features(state, command)
        case FoundTier():
            return features.found_tier(state, command)
        case AllocateProducerIds():
            return nodes.allocate_producer_ids(state, command)
        case RegisterNode():
            return nodes.register_node(state, command)
        case SetNodeAlive():
            return nodes.set_node_alive(state, command)
        case AddNode():
            return membership.add_node(state, command)
        case SetNodeDuty():
            return membership.set_node_duty(state, command)
        case MoveNode():
            return membership.move_node(state, command)
        case RemoveNode():
            return membership.remove_node(state, command)
        case ReportLeader():
            return nodes.report_leader(state, command)
        case ReportController():
            return nodes.report_controller(state, command)
        case RestoreTopics():
            return restore_topics(state, command)
        case SeedPlacement():
            return replicas.seed_placement(state, command)
        case PlaceGroup():
            return replicas.place_group(state, command)
        case ForgetReplica():
            return replicas.forget_replica(state, command)
        case SplitPartitions():
            return split.split_partitions(state, command)
        case NoteMoved():
            return split.note_moved(state, command)
        case NoteDropped():
            return split.note_dropped(state, command)
        case SetUpstreamGoal():
            return upstream_goal.set_upstream_goal(state, command)
        case CreateAcls():
            return acls.create_acls(state, command)
        case DeleteAcls():
            return acls.delete_acls(state, command)
        case AlterCredentials():
            return credentials.alter_credentials(state, command)
    assert_never(command)
