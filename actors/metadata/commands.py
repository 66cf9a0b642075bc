"""The commands that brokers, replicas and the controller's actor give the metadata shard, and their results.

Error codes are plain ints of `kio.schema.errors.ErrorCode`, so that `pack` carries every command and result
between actors as bytes. A result has one entry for each entry of its command, in its order.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgpack

from actors.ground.acl import Acl, AclFilter
from actors.ground.image import NO_TOPIC_ID
from actors.ground.spec import Copies, Copy
from actors.metadata.node_commands import NODE_COMMANDS, NodeCommand
from actors.metadata.split_commands import SPLIT_COMMANDS, SplitCommand
from actors.metadata.upstream_commands import SetUpstreamGoal
from actors.metadata.wire import Unreadable

FORMAT = 1
"""The format that stands before every packed command and result; any other is refused."""

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3
"""An operation of IncrementalAlterConfigs (KIP-339), as SET, DELETE and APPEND are, with its number on the
wire."""

PRODUCER_ID_BLOCK_SIZE = 1_000
"""How many producer ids a block has, as Kafka's controller gives them out (KIP-730)."""


class NewTopic(NamedTuple):
    name: str
    partition_count: int = -1
    """How many partitions the topic is to have; -1: the default, or as many as `assignments` name."""
    replication_factor: int = -1
    """How many copies the client wants. It is checked as Kafka does, without effect: a topic's log has one
    copy."""
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Where partitions are to be: (partition, node ids); the first living node leads."""
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopics(NamedTuple):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


class CreatedTopic(NamedTuple):
    name: str
    error_code: int = 0
    error_message: str | None = None
    topic_id: bytes = NO_TOPIC_ID
    partition_count: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    """The configs that the topic does not have by default."""


class CreateTopicsResult(NamedTuple):
    topics: tuple[CreatedTopic, ...]


class TopicToDelete(NamedTuple):
    """The topic to delete, by its name or by its id (KIP-516)."""

    name: str | None = None
    topic_id: bytes = NO_TOPIC_ID


class DeleteTopics(NamedTuple):
    topics: tuple[TopicToDelete, ...]


class DeletedTopic(NamedTuple):
    name: str | None
    topic_id: bytes = NO_TOPIC_ID
    error_code: int = 0
    error_message: str | None = None


class DeleteTopicsResult(NamedTuple):
    topics: tuple[DeletedTopic, ...]


class MorePartitions(NamedTuple):
    name: str
    partition_count: int
    """How many partitions the topic is to have afterwards."""
    assignments: tuple[tuple[int, ...], ...] | None = None
    """The node ids of each added partition; None: the controller chooses."""


class CreatePartitions(NamedTuple):
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


class TopicOutcome(NamedTuple):
    name: str
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResult(NamedTuple):
    topics: tuple[TopicOutcome, ...]


class TopicConfigChange(NamedTuple):
    topic: str
    changes: tuple[tuple[str, int, str | None], ...]
    """What to change: (config name, SET, DELETE, APPEND or SUBTRACT, value)."""


class AlterTopicConfigs(NamedTuple):
    topics: tuple[TopicConfigChange, ...]
    validate_only: bool = False
    replace: bool = False
    """Whether what a topic has and the change does not name goes back to its default (AlterConfigs)."""


class AlterTopicConfigsResult(NamedTuple):
    topics: tuple[TopicOutcome, ...]


class GroupConfigChange(NamedTuple):
    group_id: str
    changes: tuple[tuple[str, int, str | None], ...]
    """What to change: (config name, SET, DELETE, APPEND or SUBTRACT, value)."""


class AlterGroupConfigs(NamedTuple):
    groups: tuple[GroupConfigChange, ...]
    validate_only: bool = False
    replace: bool = False
    """Whether what a group has and the change does not name goes back to its default (AlterConfigs)."""


class GroupOutcome(NamedTuple):
    group_id: str
    error_code: int = 0
    error_message: str | None = None


class AlterGroupConfigsResult(NamedTuple):
    groups: tuple[GroupOutcome, ...]


class BrokerConfigChange(NamedTuple):
    broker: str
    """The id of a node, or "" for all nodes."""
    changes: tuple[tuple[str, int, str | None], ...]
    """What to change: (setting, SET, DELETE, APPEND or SUBTRACT, value)."""


class AlterBrokerConfigs(NamedTuple):
    brokers: tuple[BrokerConfigChange, ...]
    validate_only: bool = False
    replace: bool = False
    """Whether a setting that the change does not name goes back to what the tier started with
    (AlterConfigs)."""


class BrokerOutcome(NamedTuple):
    broker: str
    error_code: int = 0
    error_message: str | None = None


class AlterBrokerConfigsResult(NamedTuple):
    brokers: tuple[BrokerOutcome, ...]


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    way: int
    """UPGRADE, SAFE_DOWNGRADE or UNSAFE_DOWNGRADE of `actors.ground.features`."""


class Served(NamedTuple):
    """What an actor of the tier says that it can serve of `groupd.version`."""

    actor: str
    release: str = ""
    low: int = 0
    high: int = 0
    """The highest level; 0: the actor did not answer."""


class UpdateFeatures(NamedTuple):
    """The order to change levels of features, all or none."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    served: tuple[Served, ...] = ()
    """What all actors of the tier can serve, as the controller has just asked them."""


class FoundTier(NamedTuple):
    """The order to begin a new tier at a level of `groupd.version`. In a tier that is not new it changes
    nothing."""

    level: int


class AllocateProducerIds(NamedTuple):
    node_id: int
    """The node that asks for a block; every answer is a new block."""


class ProducerIdBlock(NamedTuple):
    error_code: int = 0
    first_producer_id: int = -1
    size: int = 0


class RegisterNode(NamedTuple):
    """The news that a broker is up at this address. It counts as alive from now on."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class SetNodeAlive(NamedTuple):
    """The news whether a node is alive. If it is not, its topic partitions get other leaders and clients are
    no longer told of it."""

    node_id: int
    alive: bool


class ReportLeader(NamedTuple):
    """The news that a replica was elected leader of an offsets partition. The highest term wins; ties change
    nothing."""

    partition: int
    node_id: int
    term: int


class ReportController(NamedTuple):
    """The news that the controller's leader lives on this node."""

    node_id: int


class RestoredTopic(NamedTuple):
    name: str
    topic_id: bytes
    partition_count: int
    configs: tuple[tuple[str, str], ...] = ()
    """The configs that the topic does not have by default, sorted by name."""


class RestoreTopics(NamedTuple):
    """The order to restore topics of a backup, all or none."""

    topics: tuple[RestoredTopic, ...]
    next_producer_id: int
    """The first producer id that the backup's tier had not given out."""


NEW_REPLICA = -1


class GroupCopies(NamedTuple):
    group: str
    """The name of the Raft group: "controller" or "partition-<p>"."""
    copies: Copies
    leaving: Copies = ()
    """The replicas that are not wanted any more, and perhaps still there."""


class SeedPlacement(NamedTuple):
    """The order to note where the replicas of new groups are. Groups that are placed already stay as they
    are."""

    groups: tuple[GroupCopies, ...]


class PlaceGroup(NamedTuple):
    """The order to give a group these replicas from now on, first the preferred leader.

    It is refused unless `expected` are the replicas that the group has: of two changes decided at once the
    second is not to undo the first. A replica that moves is a new one, with a number that the group has not
    had: whoever comes without a member's memory must not vote under its name.
    """

    group: str
    expected: Copies
    copies: Copies
    """The replicas that the group should have. NEW_REPLICA stands for a number that the controller
    chooses."""


class ForgetReplica(NamedTuple):
    """The news that a replica which was to leave its group has left, and that its actor is stopped."""

    group: str
    replica_id: int


class CreateAcls(NamedTuple):
    acls: tuple[Acl, ...]


class DeleteAcls(NamedTuple):
    filters: tuple[AclFilter, ...]


class DeletedAcls(NamedTuple):
    """The entries that one filter of DeleteAcls has removed."""

    acls: tuple[Acl, ...] = ()
    error_code: int = 0
    error_message: str | None = None


class DeleteAclsResult(NamedTuple):
    filters: tuple[DeletedAcls, ...]


class NewCredential(NamedTuple):
    """What a password was made into, which itself goes nowhere (KIP-554)."""

    user: str
    mechanism: int
    """The mechanism's number on the wire; see `actors.security.scram`."""
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


class CredentialToDelete(NamedTuple):
    user: str
    mechanism: int


class AlterCredentials(NamedTuple):
    deletions: tuple[CredentialToDelete, ...]
    upsertions: tuple[NewCredential, ...]

    @property
    def changes(self) -> list[CredentialToDelete | NewCredential]:
        return [*self.deletions, *self.upsertions]


class AlteredUser(NamedTuple):
    user: str
    error_code: int = 0
    error_message: str | None = None


class AlterCredentialsResult(NamedTuple):
    """The result of AlterCredentials: one entry for each user that the command names, however often."""

    users: tuple[AlteredUser, ...]


class Outcome(NamedTuple):
    """The answer to RegisterNode, SetNodeAlive, ReportLeader, ReportController, RestoreTopics, SeedPlacement,
    PlaceGroup, ForgetReplica, UpdateFeatures, FoundTier, SetUpstreamGoal, to those of
    `actors.metadata.node_commands` and `actors.metadata.split_commands`, and to any command that is refused
    as a whole (this replica does not lead)."""

    error_code: int = 0
    error_message: str | None = None


class CreateAclsResult(NamedTuple):
    acls: tuple[Outcome, ...]


Command = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterTopicConfigs
    | AlterGroupConfigs
    | AlterBrokerConfigs
    | UpdateFeatures
    | FoundTier
    | AllocateProducerIds
    | RegisterNode
    | SetNodeAlive
    | NodeCommand
    | ReportLeader
    | ReportController
    | RestoreTopics
    | SeedPlacement
    | PlaceGroup
    | ForgetReplica
    | SplitCommand
    | SetUpstreamGoal
    | CreateAcls
    | DeleteAcls
    | AlterCredentials
)
CommandResult = (
    CreateTopicsResult
    | DeleteTopicsResult
    | CreatePartitionsResult
    | AlterTopicConfigsResult
    | AlterGroupConfigsResult
    | AlterBrokerConfigsResult
    | ProducerIdBlock
    | Outcome
    | CreateAclsResult
    | DeleteAclsResult
    | AlterCredentialsResult
)


class _Shape(NamedTuple):
    cls: type[Any]
    entry_classes: tuple[type[Any] | None, ...] = ()
    """The classes of the entries of the first fields; None for a field that holds no entries."""


_SHAPES = {
    shape.cls.__name__: shape
    for shape in (
        _Shape(CreateTopics, (NewTopic,)),
        _Shape(DeleteTopics, (TopicToDelete,)),
        _Shape(CreatePartitions, (MorePartitions,)),
        _Shape(AlterTopicConfigs, (TopicConfigChange,)),
        _Shape(AlterGroupConfigs, (GroupConfigChange,)),
        _Shape(AlterBrokerConfigs, (BrokerConfigChange,)),
        _Shape(UpdateFeatures, (FeatureUpdate, None, Served)),
        _Shape(FoundTier),
        _Shape(AllocateProducerIds),
        _Shape(RegisterNode),
        _Shape(SetNodeAlive),
        *map(_Shape, NODE_COMMANDS),
        _Shape(ReportLeader),
        _Shape(ReportController),
        _Shape(RestoreTopics, (RestoredTopic,)),
        _Shape(SeedPlacement, (GroupCopies,)),
        _Shape(PlaceGroup, (None, Copy, Copy)),
        _Shape(ForgetReplica),
        *map(_Shape, SPLIT_COMMANDS),
        _Shape(SetUpstreamGoal),
        _Shape(CreateTopicsResult, (CreatedTopic,)),
        _Shape(DeleteTopicsResult, (DeletedTopic,)),
        _Shape(CreatePartitionsResult, (TopicOutcome,)),
        _Shape(AlterTopicConfigsResult, (TopicOutcome,)),
        _Shape(AlterGroupConfigsResult, (GroupOutcome,)),
        _Shape(AlterBrokerConfigsResult, (BrokerOutcome,)),
        _Shape(ProducerIdBlock),
        _Shape(Outcome),
        _Shape(CreateAcls, (Acl,)),
        _Shape(DeleteAcls, (AclFilter,)),
        _Shape(AlterCredentials, (CredentialToDelete, NewCredential)),
        _Shape(CreateAclsResult, (Outcome,)),
        _Shape(DeleteAclsResult, (DeletedAcls,)),
        _Shape(AlterCredentialsResult, (AlteredUser,)),
    )
}


def pack(message: Command | CommandResult) -> bytes:
    """Return a command or result as msgpack of (format, class name, fields)."""
    assert type(message).__name__ in _SHAPES
    return cast(bytes, msgpack.packb((FORMAT, type(message).__name__, _without_defaults(message))))


def _without_defaults(message: Command | CommandResult) -> tuple[Any, ...]:
    """Return the fields up to the last one that says anything: an older release does not know what was added
    behind."""
    values = tuple(message)
    for name, value in zip(reversed(message._fields), reversed(message), strict=True):
        if name not in message._field_defaults or value != message._field_defaults[name]:
            break
        values = values[:-1]
    return values


def unpack(packed: bytes) -> Any:
    """Return the command or result that `pack` was given. Raises Unreadable."""
    try:
        version, name, values = msgpack.unpackb(packed, use_list=False)
        if version != FORMAT:
            raise Unreadable(f"format version {version}; this release reads {FORMAT}")
        shape = _SHAPES[name]
        values = list(values)
        for position, entry_cls in enumerate(shape.entry_classes):
            if entry_cls is not None and position < len(values):
                values[position] = tuple(entry_cls(*entry) for entry in values[position])
        return shape.cls(*values)
    except Unreadable:
        raise
    except (TypeError, ValueError, LookupError, msgpack.UnpackException) as error:
        raise Unreadable(f"no command or result of this release: {error!r}") from error
