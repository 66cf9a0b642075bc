"""Restore topics of a backup under their old ids: committed offsets name topics by id (O16)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.metadata.commands import Outcome, RestoredTopic, RestoreTopics
from actors.metadata.placement import spread
from actors.metadata.records import PRODUCER_IDS, TOPIC, ProducerIdsValue, SingletonKey, TopicKey, TopicValue
from actors.metadata.state import MetadataState
from actors.metadata.topics import Room
from actors.protocol.errors import GroupError


def restore_topics(state: MetadataState, command: RestoreTopics) -> tuple[list[Record], Outcome]:
    """Restore all of the command's topics or, with the reason, none. A topic that is there as it should be is
    no obstacle, so that a command whose answer was lost can be repeated.

    Leaders are chosen among this tier's living nodes. Producer ids go on where the backup's tier stood.
    """
    alive = state.open_node_ids()
    if not alive:
        return [], Outcome(ErrorCode.broker_not_available, "no broker has registered yet")
    new = [topic for topic in command.topics if not _is_there(state, topic)]
    for topic in new:
        if topic.name in state.topics or topic.topic_id in state.topic_names:
            return [], Outcome(
                ErrorCode.topic_already_exists, f"topic {topic.name} was created here meanwhile"
            )
    try:
        Room(state).check(len(new), sum(topic.partition_count for topic in new))
    except GroupError as error:
        return [], Outcome(error.error_code, error.message)
    records = []
    for topic in new:
        leaders = spread(topic.name, 0, topic.partition_count, alive)
        records.append(
            Record(TopicKey(TOPIC, topic.name), TopicValue(topic.topic_id, leaders, topic.configs))
        )
    if command.next_producer_id > state.next_producer_id:
        records.append(Record(SingletonKey(PRODUCER_IDS), ProducerIdsValue(command.next_producer_id)))
    return records, Outcome()


def _is_there(state: MetadataState, topic: RestoredTopic) -> bool:
    found = state.topics.get(topic.name)
    return found is not None and (found.topic_id, len(found.partition_leaders), found.configs) == (
        topic.topic_id,
        topic.partition_count,
        topic.configs,
    )
