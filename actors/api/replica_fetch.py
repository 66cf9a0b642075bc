"""Fetch of brokers that follow a node of the tier in the Kafka cluster in front of which that stands.

They are given the logs of offsets partitions, by which groups go back to them. What else the cluster has
placed on a node is empty, and is moved away; a replica that has more must not cut it off, so it is told of no
end. There are no fetch sessions for them: they name all that they follow each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.fetch import TOPIC_IDS_SINCE, fetch
from actors.catalog import codec
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.protocol.api_keys import FETCH
from actors.protocol.followers import follower_of
from actors.protocol.header import Header
from actors.security.topic_checks import RestrictedFetch
from actors.topics.fetch_sessions import LAST_EPOCH, NO_SESSION

_ALONE = {"session_id": NO_SESSION, "session_epoch": LAST_EPOCH, "forgotten_topics_data": ()}
"""The fields of a request that is of no session, as far as its version has them."""


def is_followed(context: BrokerContext, header: Header, entity: Any) -> bool:
    """Return whether a broker of the cluster upstream follows this node with a Fetch. `entity` may be that of
    a client that may not read everything, which is no broker."""
    is_broker = context.image.upstream is not None and not isinstance(entity, RestrictedFetch)
    return is_broker and follower_of(header.api_version, entity) is not None


async def replica_fetch(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Answer Fetch of a broker that follows."""
    version = header.api_version
    ours: list[Any] = []
    others: list[Any] = []
    for topic in entity.topics:
        (ours if _name(context, version, topic) == OFFSETS_TOPIC else others).append(topic)
    if not ours:
        await asyncio.sleep(entity.max_wait.total_seconds())
        return _answer(version, _empty(version, others))
    asked = {"topics": tuple(ours), **{name: _ALONE[name] for name in _ALONE if hasattr(entity, name)}}
    answer = await fetch(context, header, replace(entity, **asked))
    return replace(answer, responses=(*answer.responses, *_empty(version, others)))


def _name(context: BrokerContext, version: int, topic: Any) -> str | None:
    name: str | None = topic.topic if version < TOPIC_IDS_SINCE else context.topic_name(topic.topic_id)
    return name


def _empty(version: int, topics: Iterable[Any]) -> tuple[Any, ...]:
    partition_class = codec.nested(FETCH, version, "PartitionData")
    topic_class = codec.nested(FETCH, version, "FetchableTopicResponse")
    return tuple(
        codec.build(
            topic_class,
            topic=getattr(topic, "topic", None),
            topic_id=getattr(topic, "topic_id", None),
            partitions=tuple(
                codec.build(
                    partition_class,
                    partition_index=partition.partition,
                    error_code=ErrorCode.none,
                    high_watermark=0,
                    last_stable_offset=0,
                    log_start_offset=0,
                    aborted_transactions=None,
                    records=b"",
                )
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )


def _answer(version: int, topics: tuple[Any, ...]) -> Any:
    return codec.build(
        codec.response_class(FETCH, version),
        error_code=ErrorCode.none,
        session_id=NO_SESSION,
        responses=topics,
        node_endpoints=(),
    )
