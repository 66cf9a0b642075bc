"""Answers that a lie makes or changes. PURE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request
from actors.protocol.api_keys import OFFSET_COMMIT
from actors.protocol.messages import (
    HeartbeatResponse,
    LeaveGroupResponse,
    LeftMember,
    OffsetCommitResponse,
)
from actors.protocol.offset_refusals import refused_commit
from tests.lies.exchange import Asked

Key = tuple[str, str, int]
"""A group, a topic and the number of a partition."""
FINE = ErrorCode.none


def neutral(asked: Asked) -> Any:
    """Return the request decoded into the coordinator's form, the same for all versions."""
    _, at = parse_header(asked.frame)
    return codec.decode(asked.header, asked.frame, at)


def refused(asked: Asked, error: ErrorCode) -> Any:
    """The answer by which a coordinator refuses the whole request."""
    header = asked.header
    return refusal(
        Request(0, header.api_key, header.api_version, header.client_id, "", neutral(asked)), int(error)
    )


def acknowledged(asked: Asked) -> OffsetCommitResponse:
    """Every offset of a commit is said to be stored."""
    return OffsetCommitResponse(refused_commit(neutral(asked).topics, FINE))


def beaten(asked: Asked) -> HeartbeatResponse:
    """Answer a classic heartbeat as if all were well."""
    return HeartbeatResponse(FINE)


def left(asked: Asked) -> LeaveGroupResponse:
    """Answer LeaveGroup as if every member had left."""
    members = neutral(asked).members
    return LeaveGroupResponse(
        FINE, tuple(LeftMember(m.member_id, m.group_instance_id, FINE) for m in members)
    )


def not_found(asked: Asked, error: ErrorCode) -> Any:
    """Answer FindCoordinator with this error."""
    header = asked.header
    answer_class = codec.response_class(header.api_key, header.api_version)
    return codec.build(answer_class, error_code=error, error_message=None, node_id=-1, host="", port=-1)


def committed(asked: Asked) -> Iterator[tuple[Key, int]]:
    """Yield each partition of a commit with the offset that is committed for it."""
    assert asked.api_key == OFFSET_COMMIT
    for topic in asked.request.topics:
        for row in topic.partitions:
            yield (asked.group_id, topic.name, row.partition_index), row.committed_offset


def fetched(answer: Any, offset_of: Callable[[Key, int], int]) -> Any:
    """An OffsetFetch with other offsets; those of partitions without a committed one stay so."""
    return replace(answer, groups=tuple(_fetched_group(group, offset_of) for group in answer.groups))


def _fetched_group(group: Any, offset_of: Callable[[Key, int], int]) -> Any:
    topics = [
        replace(
            topic,
            partitions=tuple(
                row
                if row.committed_offset < 0
                else replace(
                    row,
                    committed_offset=offset_of(
                        (group.group_id, topic.name, row.partition_index), row.committed_offset
                    ),
                )
                for row in topic.partitions
            ),
        )
        for topic in group.topics
    ]
    return replace(group, topics=tuple(topics))
