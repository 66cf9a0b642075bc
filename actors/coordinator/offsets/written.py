"""The records of an OffsetCommit.

Several partitions of a topic without metadata are one record, in which their rows stand as they came. All
others, and a partition that is alone, have a record each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, new_tuple
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    OffsetBatchKey,
    OffsetBatchValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRowsKey,
    OffsetRowsValue,
)
from actors.protocol.messages import NO_ERROR, CommittedRow, OffsetCommitRequest
from actors.protocol.offset_rows import ROW_BYTES, CommittedRows, FineRows, layout_of, numbers_of, packed

ROWS_MAX: Final = 2_000
"""How many offsets a record has: as many as a step of a snapshot has records."""
_BLOCK_BYTES_MAX: Final = ROWS_MAX * ROW_BYTES
_Error = tuple[int, ErrorCode]
"""(partition, its error)"""
Times = tuple[int, int, bytes]
"""(commit_timestamp_ms, expire_timestamp_ms, topic_id): the last fields of all values."""
_Topic = tuple[list[Record], Sequence[_Error], int]
"""(records, answer, number of offsets) of one topic"""
Written = tuple[list[Record], tuple[tuple[str, Sequence[_Error]], ...], int]
"""(records, answer, number of offsets)"""


def written(state: ShardState, body: OffsetCommitRequest, now_ms: int) -> Written | None:
    """What a request commits if its group lets it; None if it names what does not exist, or a topic without
    partitions."""
    topic_images = state.image.topics
    # O5: a retention named by the commit itself wins over the tier's.
    retention_ms = body.retention_time_ms
    expire_timestamp_ms = NO_EXPIRY if retention_ms == -1 else now_ms + retention_ms
    records: list[Record] = []
    topics: list[tuple[str, Sequence[_Error]]] = []
    count = 0
    for topic, rows in body.topics:
        topic_image = topic_images.get(topic)
        if topic_image is None or not rows:
            return None
        partition_count = len(topic_image.partition_leaders)
        times = (now_ms, expire_timestamp_ms, topic_image.topic_id)
        of_topic: _Topic | None
        if type(rows) is CommittedRows and state.logs_rows:
            of_topic = _packed_rows(body.group_id, topic, rows, times, partition_count)
        else:
            of_topic = _of_topic(state, body.group_id, (topic, rows), times, partition_count)
        if of_topic is None:
            return None
        records += of_topic[0]
        topics.append((topic, of_topic[1]))
        count += of_topic[2]
    return records, tuple(topics), count


def _packed_rows(
    group_id: str, topic: str, rows: CommittedRows, times: Times, partition_count: int
) -> _Topic | None:
    """The records of packed rows; None if one of the partitions does not exist."""
    data = rows.data
    layout = layout_of(data)
    if layout.highest >= partition_count or layout.lowest < 0:
        return None
    return packed_records(group_id, topic, data, times), FineRows(layout), len(rows)


def packed_records(group_id: str, topic: str, rows: bytes, times: Times) -> list[Record]:
    """The records of packed rows. Of a partition that is named twice the last offset counts."""
    if not layout_of(rows).is_distinct:
        last = {row[0]: row for row in numbers_of(rows)}
        rows = packed(last.values())
    key = new_tuple(OffsetRowsKey, (OFFSET_ROWS, group_id, topic))
    return [
        new_tuple(Record, (key, new_tuple(OffsetRowsValue, (((block, *times),),)))) for block in _blocks(rows)
    ]


def _blocks(data: bytes) -> Iterator[bytes]:
    if len(data) <= _BLOCK_BYTES_MAX:
        return iter((data,))
    return (data[at : at + _BLOCK_BYTES_MAX] for at in range(0, len(data), _BLOCK_BYTES_MAX))


def _of_topic(
    state: ShardState,
    group_id: str,
    of_topic: tuple[str, Sequence[CommittedRow]],
    times: Times,
    partition_count: int,
) -> _Topic | None:
    """The records of any rows; None if one of the partitions does not exist."""
    topic, rows = of_topic
    if len(rows) == 1:
        exists = 0 <= rows[0][0] < partition_count
        return _one_by_one(state, group_id, of_topic, times) if exists else None
    partitions, offsets, leader_epochs, texts = zip(*rows, strict=True)
    if min(partitions) < 0 or max(partitions) >= partition_count:
        return None
    if any(texts):
        return _one_by_one(state, group_id, of_topic, times)
    if state.logs_rows:
        return _packed_rows(group_id, topic, CommittedRows(packed(rows)), times, partition_count)
    key = new_tuple(OffsetBatchKey, (OFFSET_BATCH, group_id, topic))
    value = new_tuple(OffsetBatchValue, (partitions, offsets, leader_epochs, *times))
    return [new_tuple(Record, (key, value))], tuple(zip(partitions, repeat(NO_ERROR))), len(rows)


def _one_by_one(
    state: ShardState, group_id: str, of_topic: tuple[str, Sequence[CommittedRow]], times: Times
) -> _Topic:
    """A record for each partition whose metadata is not too long."""
    metadata_max = state.settings.offset_metadata_max_bytes
    records: list[Record] = []
    errors: list[_Error] = []
    topic, rows = of_topic
    for partition, offset, leader_epoch, text in rows:
        if text and is_longer(text, metadata_max):
            errors.append((partition, ErrorCode.offset_metadata_too_large))
            continue
        key = new_tuple(OffsetCommitKey, (OFFSET_COMMIT, group_id, topic, partition))
        value = new_tuple(OffsetCommitValue, (offset, leader_epoch, text or "", *times))
        records.append(new_tuple(Record, (key, value)))
        errors.append((partition, NO_ERROR))
    return records, tuple(errors), len(records)


def is_longer(metadata: str, characters_max: int) -> bool:
    """Whether the metadata is too long, in UTF-16 units, as Java counts a string's length, whatever the
    setting's name says (O4)."""
    if len(metadata) > characters_max:
        return True
    if len(metadata) * 2 <= characters_max or metadata.isascii():
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > characters_max
