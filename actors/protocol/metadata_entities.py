"""What Metadata requests and answers have that brokers and the checks of clients' rights both speak of."""

from __future__ import annotations

import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from actors.ground.image import MetadataImage
from actors.ground.topic_names import name_problem
from actors.protocol.api_keys import METADATA
from actors.protocol.entities import build, nested

NO_AUTHORIZED_OPERATIONS = -(2**31)
_IDS_NOT_YET = (10, 11)


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
