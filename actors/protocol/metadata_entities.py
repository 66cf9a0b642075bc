"""What Metadata requests and answers have that brokers and the checks of clients' rights both speak of."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.ground.image import MetadataImage
from actors.ground.topic_names import name_problem
from actors.protocol.api_keys import METADATA
from actors.protocol.entities import build, nested, request_class, response_class
from actors.protocol.entity_schema import field_names

NO_AUTHORIZED_OPERATIONS = -(2**31)
_IDS_NOT_YET = (10, 11)
UNCREATING_VERSION = 4
"""The first version of Metadata in which one can ask for topics without having them created (KIP-204)."""


def has_ids_too_early(version: int, entity: Any) -> bool:
    """Whether a Metadata request names topics by their ids in a version that has room for ids, but may not
    use them yet (KIP-516)."""
    return version in _IDS_NOT_YET and any(topic.topic_id is not None for topic in entity.topics or ())


def missing_topics(image: MetadataImage, version: int, entity: Any) -> tuple[str, ...]:
    """The topics that a Metadata request asks for by name and allows to be created, each once."""
    if version >= 4 and not entity.allow_auto_topic_creation:
        return ()
    names = (topic.name for topic in entity.topics or ())
    return tuple(
        dict.fromkeys(
            name
            for name in names
            if name is not None and name not in image.topics and name_problem(name) is None
        )
    )


def uncreating(version: int, entity: Any) -> tuple[int, Any]:
    """Return a Metadata request that asks for the same and creates no topics, and its version, which is the
    request's own where that has a field for it."""
    if version >= UNCREATING_VERSION:
        return version, replace(entity, allow_auto_topic_creation=False)
    topic_class = nested(METADATA, UNCREATING_VERSION, "MetadataRequestTopic", "request")
    topics = None if entity.topics is None else tuple(topic_class(name=each.name) for each in entity.topics)
    if version == 0 and not topics:  # which had no other way to ask for all
        topics = None
    newer = request_class(METADATA, UNCREATING_VERSION)
    return UNCREATING_VERSION, newer(topics=topics, allow_auto_topic_creation=False)


def in_version(version: int, answer: Any) -> Any:
    """Return an answer to Metadata as an older version has it."""

    def recast(entity: Any, name: str, **changed: Any) -> Any:
        fields = {field: getattr(entity, field) for field in field_names(entity.__class__)}
        return build(nested(METADATA, version, name), **fields | changed)

    brokers = tuple(recast(each, "MetadataResponseBroker") for each in answer.brokers)
    topics = tuple(
        recast(
            topic,
            "MetadataResponseTopic",
            partitions=tuple(recast(each, "MetadataResponsePartition") for each in topic.partitions),
        )
        for topic in answer.topics
    )
    return recast(answer, response_class(METADATA, version).__name__, brokers=brokers, topics=topics)


def absent_topic(version: int, name: str | None, error_code: ErrorCode, topic_id: uuid.UUID | None) -> Any:
    """The answer's entry for a topic that there is not, or that the client is not to see."""
    return build(
        nested(METADATA, version, "MetadataResponseTopic"),
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=NO_AUTHORIZED_OPERATIONS,
    )
