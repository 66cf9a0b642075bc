"""Create, grow and delete topics, with Kafka's checks in Kafka's order (ReplicationControlManager).

Topic configs by themselves are in `configs`. Kafka's replica sets are nowhere: a topic's log has one copy, so
of an assignment only the first living node counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.image import NO_TOPIC_ID
from actors.ground.topic_names import INTERNAL_TOPICS, collision_name, name_problem
from actors.metadata.commands import (
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResult,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResult,
    MorePartitions,
    NewTopic,
    TopicOutcome,
    TopicToDelete,
)
from actors.metadata.placement import first_alive, spread
from actors.metadata.records import TOPIC, TopicKey, TopicValue
from actors.metadata.state import MetadataState
from actors.metadata.topic_configs import problem, shown
from actors.protocol.errors import GroupError

CLUSTER_METADATA_TOPIC = "__cluster_metadata"


class Room:
    """How many topics and partitions a command may still add, and the names that it has taken."""

    def __init__(self, state: MetadataState) -> None:
        self.topics = state.settings.topics_max - len(state.topics)
        self.partitions = state.settings.partitions_max - state.partition_total
        self.taken: dict[str, str] = {}
        self._topics_max = state.settings.topics_max
        self._partitions_max = state.settings.partitions_max

    def check(self, topics: int, partitions: int) -> None:
        """Check that so many topics and partitions may be added. Raises GroupError with Kafka's code for a
        broker's own rules (its CreateTopicPolicy)."""
        if topics > self.topics:
            message = f"The tier holds at most {self._topics_max} topics (topics.max)."
            raise GroupError(ErrorCode.policy_violation, message)
        if partitions > self.partitions:
            message = f"The tier holds at most {self._partitions_max} partitions (partitions.max)."
            raise GroupError(ErrorCode.policy_violation, message)

    def take(self, topics: int, partitions: int) -> None:
        self.topics -= topics
        self.partitions -= partitions


def create_topics(state: MetadataState, command: CreateTopics) -> tuple[list[Record], CreateTopicsResult]:
    room = Room(state)
    twice = _repeated([topic.name for topic in command.topics])
    records: list[Record] = []
    created: list[CreatedTopic] = []
    for topic in {each.name: each for each in command.topics}.values():
        try:
            if topic.name in twice:
                raise GroupError(ErrorCode.invalid_request, "Duplicate topic name.")
            leaders = _leaders_of_new_topic(state, topic, room)
        except GroupError as error:
            created.append(CreatedTopic(topic.name, error.error_code, error.message))
            continue
        room.take(1, len(leaders))
        configs = tuple(
            sorted((name, shown(name, value)) for name, value in topic.configs if value is not None)
        )
        topic_id = state.new_topic_id()  # as in Kafka, also of what is only tried
        if not command.validate_only:
            records.append(Record(TopicKey(TOPIC, topic.name), TopicValue(topic_id, leaders, configs)))
        created.append(CreatedTopic(topic.name, 0, None, topic_id, len(leaders), 1, configs))
    return records, CreateTopicsResult(tuple(created))


def _leaders_of_new_topic(state: MetadataState, topic: NewTopic, room: Room) -> tuple[int, ...]:
    """Return the leaders of a new topic's partitions. Raises GroupError if the topic may not be created."""
    _check_name(state, topic.name, room)
    _check_configs(topic)
    alive = state.open_node_ids()
    if topic.assignments:
        leaders = _assigned_leaders(state, topic, alive)
        room.check(1, len(leaders))
        return leaders
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise GroupError(ErrorCode.invalid_replication_factor, message)
    if topic.partition_count < -1 or topic.partition_count == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise GroupError(ErrorCode.invalid_partitions, message)
    wanted = max(topic.replication_factor, 1)
    if not alive or wanted > len(state.nodes):
        message = (
            f"Unable to replicate the partition {wanted} time(s): The target replication factor of {wanted} "
            f"cannot be reached because only {len(state.nodes) if alive else 0} broker(s) are registered."
        )
        raise GroupError(ErrorCode.invalid_replication_factor, message)
    count = state.settings.num_partitions if topic.partition_count == -1 else topic.partition_count
    room.check(1, count)
    return spread(topic.name, 0, count, alive)


def _check_name(state: MetadataState, name: str, room: Room) -> None:
    wrong = name_problem(name)
    if wrong is not None:
        raise GroupError(ErrorCode.invalid_topic_exception, wrong)
    if name == CLUSTER_METADATA_TOPIC:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        raise GroupError(ErrorCode.invalid_request, message)
    if name in state.topics or name in INTERNAL_TOPICS:
        raise GroupError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    collision = collision_name(name)
    if collision is None:
        return
    others = state.colliding_names.get(collision)
    other = min(others) if others else room.taken.get(collision)
    if other is not None:
        message = f"Topic '{name}' collides with existing topic: {other}"
        raise GroupError(ErrorCode.invalid_topic_exception, message)
    room.taken[collision] = name


def _check_configs(topic: NewTopic) -> None:
    seen: set[str] = set()
    for name, value in topic.configs:
        if name in seen:
            raise GroupError(ErrorCode.invalid_request, f"Duplicate config name: {name}")
        seen.add(name)
        if value is None:
            raise GroupError(ErrorCode.invalid_config, f"Null value not supported for topic configs: {name}")
        wrong = problem(name, value)
        if wrong is not None:
            raise GroupError(ErrorCode.invalid_config, wrong)


def _assigned_leaders(state: MetadataState, topic: NewTopic, alive: list[int]) -> tuple[int, ...]:
    """Return the leaders that a manual assignment names. Raises GroupError."""
    for field, value in (
        ("replication factor", topic.replication_factor),
        ("numPartitions", topic.partition_count),
    ):
        if value != -1:
            message = f"A manual partition assignment was specified, but {field} was not set to -1."
            raise GroupError(ErrorCode.invalid_request, message)
    assignments = dict(topic.assignments)
    if len(assignments) != len(topic.assignments):
        message = "Found multiple manual partition assignments for one partition."
        raise GroupError(ErrorCode.invalid_replica_assignment, message)
    if sorted(assignments) != list(range(len(assignments))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise GroupError(ErrorCode.invalid_replica_assignment, message)
    return tuple(
        _assigned_leader(state, assignments[partition], alive) for partition in range(len(assignments))
    )


def _assigned_leader(state: MetadataState, node_ids: Sequence[int], alive: list[int]) -> int:
    if not node_ids:
        message = "The manual partition assignment includes an empty replica list."
        raise GroupError(ErrorCode.invalid_replica_assignment, message)
    if len(set(node_ids)) != len(node_ids):
        message = "The manual partition assignment includes a broker more than once."
        raise GroupError(ErrorCode.invalid_replica_assignment, message)
    for node_id in node_ids:
        if node_id not in state.nodes:
            message = (
                f"The manual partition assignment includes broker {node_id}, "
                "but no such broker is registered."
            )
            raise GroupError(ErrorCode.invalid_replica_assignment, message)
    leader = first_alive(node_ids, alive)
    if leader is None:
        message = (
            "All brokers specified in the manual partition assignment are fenced or in controlled shutdown."
        )
        raise GroupError(ErrorCode.invalid_replica_assignment, message)
    return leader


def create_partitions(
    state: MetadataState, command: CreatePartitions
) -> tuple[list[Record], CreatePartitionsResult]:
    room = Room(state)
    twice = _repeated([topic.name for topic in command.topics])
    records: list[Record] = []
    outcomes: list[TopicOutcome] = []
    for topic in {each.name: each for each in command.topics}.values():
        try:
            if topic.name in twice:
                raise GroupError(ErrorCode.invalid_request, "Duplicate topic name.")
            value = _grown(state, topic, room)
        except GroupError as error:
            outcomes.append(TopicOutcome(topic.name, error.error_code, error.message))
            continue
        room.take(0, topic.partition_count - len(state.topics[topic.name].partition_leaders))
        outcomes.append(TopicOutcome(topic.name))
        if not command.validate_only:
            records.append(Record(TopicKey(TOPIC, topic.name), value))
    return records, CreatePartitionsResult(tuple(outcomes))


def _grown(state: MetadataState, topic: MorePartitions, room: Room) -> TopicValue:
    """Return the topic with more partitions. Raises GroupError if it may not have that many."""
    value = state.topics.get(topic.name)
    if value is None:
        raise GroupError(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    now = len(value.partition_leaders)
    if topic.partition_count == now:
        raise GroupError(ErrorCode.invalid_partitions, f"Topic already has {now} partition(s).")
    if topic.partition_count < now:
        message = (
            f"The topic {topic.name} currently has {now} partition(s); "
            f"{topic.partition_count} would not be an increase."
        )
        raise GroupError(ErrorCode.invalid_partitions, message)
    added = topic.partition_count - now
    room.check(0, added)
    alive = state.open_node_ids()
    if topic.assignments is not None:
        if len(topic.assignments) != added:
            message = (
                f"Attempted to add {added} additional partition(s), but only "
                f"{len(topic.assignments)} assignment(s) were specified."
            )
            raise GroupError(ErrorCode.invalid_replica_assignment, message)
        leaders = tuple(_assigned_leader(state, node_ids, alive) for node_ids in topic.assignments)
    elif not alive:
        raise GroupError(ErrorCode.invalid_replication_factor, "No broker is alive.")
    else:
        leaders = spread(topic.name, now, added, alive)
    return value._replace(partition_leaders=value.partition_leaders + leaders)


def delete_topics(state: MetadataState, command: DeleteTopics) -> tuple[list[Record], DeleteTopicsResult]:
    """Delete topics. A deleted topic's name is free at once: its logs are known by topic id."""
    records: list[Record] = []
    deleted: list[DeletedTopic] = []
    times = Counter(command.topics)
    ids = {topic.topic_id for topic in times if topic.name is None}
    ids_told_by_name = {
        state.topics[topic.name].topic_id
        for topic in times
        if topic.name in state.topics and topic.topic_id == NO_TOPIC_ID and times[topic] == 1
    }
    for topic in times:
        if topic.name is None and times[topic] == 1 and topic.topic_id in ids_told_by_name:
            continue
        try:
            name = _name_to_delete(state, topic, times[topic])
        except GroupError as error:
            deleted.append(DeletedTopic(topic.name, topic.topic_id, error.error_code, error.message))
            continue
        topic_id = state.topics[name].topic_id
        if topic.name is not None and topic_id in ids:
            message = "The provided topic name maps to an ID that was already supplied."
            deleted.append(DeletedTopic(name, topic_id, ErrorCode.invalid_request, message))
            continue
        records.append(Record(TopicKey(TOPIC, name), None))
        deleted.append(DeletedTopic(name, topic_id))
    return records, DeleteTopicsResult(tuple(deleted))


def _name_to_delete(state: MetadataState, topic: TopicToDelete, times: int) -> str:
    """Return the name of a topic that a request names so many times. Raises GroupError."""
    if topic.name is not None and topic.topic_id != NO_TOPIC_ID:
        message = "Topic name and topic id must not both be set."
        raise GroupError(ErrorCode.invalid_request, message)
    if times > 1 and (topic.name is not None or topic.topic_id != NO_TOPIC_ID):
        raise GroupError(ErrorCode.invalid_request, "Duplicate topic name or id.")
    if topic.name is not None:
        if topic.name not in state.topics:
            message = "This server does not host this topic-partition."
            raise GroupError(ErrorCode.unknown_topic_or_partition, message)
        return topic.name
    if topic.topic_id == NO_TOPIC_ID:
        raise GroupError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    name = state.topic_names.get(topic.topic_id)
    if name is None:
        raise GroupError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    return name


def _repeated(names: list[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}
