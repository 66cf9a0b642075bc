"""Neutral answers as kio entities, put together by hand: the oracle of `codec.encode`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from itertools import repeat
from typing import Any
from uuid import UUID

from actors.protocol import api_keys as k
from actors.protocol.entities import build, nested, response_class
from actors.protocol.schema_classes import made_classes


def _id(topic_id: bytes) -> UUID | None:
    return UUID(bytes=topic_id) if any(topic_id) else None


def _ints(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(packed) // 4}i", packed)


def _heartbeat(v: int, body: Any) -> Any:
    return build(response_class(k.HEARTBEAT, v), error_code=body.error_code)


def _consumer_heartbeat(v: int, body: Any) -> Any:
    assignment, made = None, made_classes("consumer_group_heartbeat", v, "response")
    if body.assignment is not None:
        topic_class = made.TopicPartitions
        assignment = made.Assignment(
            topic_partitions=tuple(
                topic_class(topic_id=_id(topic_id), partitions=_ints(partitions))
                for topic_id, partitions in body.assignment
            )
        )
    return build(
        made.ConsumerGroupHeartbeatResponse,
        error_code=body.error_code,
        error_message=body.error_message,
        member_id=body.member_id,
        member_epoch=body.member_epoch,
        heartbeat_interval=timedelta(milliseconds=body.heartbeat_interval_ms),
        assignment=assignment,
        **_client_side(made.TopicPartitions, body.client),
    )


def _client_side(topic_class: Any, client: Any) -> dict[str, Any]:
    if client is None:
        return {}
    return {
        "should_compute_assignment": client.should_compute,
        "assignment_error": client.error,
        "pending_topic_partitions": tuple(
            topic_class(topic_id=_id(topic_id), partitions=_ints(packed))
            for topic_id, packed in client.pending
        ),
        "metadata_version": client.metadata_version,
        "metadata_bytes": client.metadata,
    }


def _with_ids(body: Any) -> Any:
    return zip(body.topic_ids or repeat(bytes(16)), body.topics, strict=False)


def _offset_commit(v: int, body: Any) -> Any:
    topic_class = nested(k.OFFSET_COMMIT, v, "OffsetCommitResponseTopic")
    partition_class = nested(k.OFFSET_COMMIT, v, "OffsetCommitResponsePartition")
    topics = tuple(
        build(
            topic_class,
            name=name,
            topic_id=_id(topic_id),
            partitions=tuple(partition_class(partition_index=p, error_code=e) for p, e in partitions),
        )
        for topic_id, (name, partitions) in _with_ids(body)
    )
    return build(response_class(k.OFFSET_COMMIT, v), topics=topics)


def _fetched(v: int, group: Any) -> Any:
    plural = "s" if v >= 8 else ""
    topic_class = nested(k.OFFSET_FETCH, v, "OffsetFetchResponseTopic" + plural)
    partition_class = nested(k.OFFSET_FETCH, v, "OffsetFetchResponsePartition" + plural)
    return tuple(
        build(
            topic_class,
            name=name,
            topic_id=_id(topic_id),
            partitions=tuple(
                build(
                    partition_class,
                    partition_index=fetched.partition,
                    committed_offset=fetched.offset,
                    committed_leader_epoch=fetched.leader_epoch,
                    metadata=fetched.metadata,
                    error_code=(group.error_code or fetched.error_code) if v == 1 else fetched.error_code,
                )
                for fetched in partitions
            ),
        )
        for topic_id, (name, partitions) in _with_ids(group)
    )


def _offset_fetch(v: int, body: Any) -> Any:
    top = response_class(k.OFFSET_FETCH, v)
    if v < 8:
        group = body.groups[0]
        return build(top, topics=_fetched(v, group), error_code=group.error_code)
    group_class = nested(k.OFFSET_FETCH, v, "OffsetFetchResponseGroup")
    groups = tuple(
        group_class(group_id=group.group_id, topics=_fetched(v, group), error_code=group.error_code)
        for group in body.groups
    )
    return build(top, groups=groups)


def _join_group(v: int, body: Any) -> Any:
    member_class = nested(k.JOIN_GROUP, v, "JoinGroupResponseMember")
    members = tuple(
        build(member_class, member_id=member_id, group_instance_id=instance_id, metadata=metadata)
        for member_id, instance_id, metadata in body.members
    )
    fields = body._asdict() | {"members": members}
    if v < 7:
        fields["protocol_name"] = body.protocol_name or ""
    return build(response_class(k.JOIN_GROUP, v), **fields)


def _sync_group(v: int, body: Any) -> Any:
    return build(response_class(k.SYNC_GROUP, v), **body._asdict())


TO_KIO: dict[int, Callable[[int, Any], Any]] = {
    k.HEARTBEAT: _heartbeat,
    k.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    k.OFFSET_COMMIT: _offset_commit,
    k.OFFSET_FETCH: _offset_fetch,
    k.JOIN_GROUP: _join_group,
    k.SYNC_GROUP: _sync_group,
}
