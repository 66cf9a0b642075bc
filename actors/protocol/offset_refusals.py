"""Refuse to commit or fetch offsets, with the same error in every place where the answer says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from actors.protocol.messages import (
    CommittedRow,
    FetchedGroup,
    FetchedOffset,
    OffsetFetchGroup,
)
from actors.protocol.transaction_messages import TopicErrors

_FETCH_ERROR_ON_PARTITIONS_VERSION: Final = 1


def refused_commit(topics: Iterable[tuple[str, Sequence[CommittedRow]]], error: ErrorCode) -> TopicErrors:
    """Return the errors of OffsetCommit and TxnOffsetCommit, which have no error of their own."""
    return tuple((topic, tuple((row[0], error) for row in partitions)) for topic, partitions in topics)


def refused_fetch(group: OffsetFetchGroup, error: ErrorCode, api_version: int) -> FetchedGroup:
    """Return one group of an OffsetFetch answer. Version 1 says the error on each partition (W6,
    KAFKA-19246)."""
    if api_version > _FETCH_ERROR_ON_PARTITIONS_VERSION:
        return FetchedGroup(group.group_id, (), error, None if group.topic_ids is None else ())
    topics = tuple(
        (topic, tuple(FetchedOffset(partition, error_code=error) for partition in partitions))
        for topic, partitions in group.topics or ()
    )
    return FetchedGroup(group.group_id, topics, error)
