"""Topic ids are 16 bytes in the metadata, and UUIDs in the entities of Kafka's requests and answers."""

from __future__ import annotations

import uuid

from actors.ground.image import NO_TOPIC_ID, TopicId


def wire_topic_id(topic_id: TopicId) -> uuid.UUID | None:
    """Return kio's form of a topic id; None for the id of no topic."""
    return None if topic_id == NO_TOPIC_ID else uuid.UUID(bytes=topic_id)


def plain_topic_id(topic_id: uuid.UUID | None) -> TopicId:
    """Return the metadata's form of a topic id."""
    return NO_TOPIC_ID if topic_id is None else topic_id.bytes
