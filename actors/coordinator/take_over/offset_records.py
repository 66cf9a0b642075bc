"""Committed offsets in Kafka's log, which are nearly all of its records, without a codec's detours.

The coordinator writes what one request commits record behind record: they differ in partition, offset and
leader epoch alone. These stand at the same places in each of them, as our own rows have them. So a run of
such records is cut into rows, and what they share is read once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from actors.coordinator.kafka_records.offset_bytes import (
    COMPACT,
    KIND,
    LENGTH,
    NO_TAGS,
    ONE_BYTE_MAX,
    PARTITION_BYTES,
    TIME,
    TOPIC_ID_TAG,
)
from actors.coordinator.kafka_records.schemas import NO_ID
from actors.coordinator.offsets.written import Times, packed_records
from actors.coordinator.take_over.inside import LogRecord
from actors.ground.contract import Record, new_tuple
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    OffsetCommitKey,
    OffsetCommitValue,
)
from actors.protocol.offset_rows import unpack_row

_FIXED: Final = b"\0\3"
"""A value's version, the one before COMPACT: offset, leader epoch, metadata, commit time."""
_SHARED_FROM: Final = 14
"""Where the part of a value begins that a whole run has: behind version, offset and leader epoch."""
_GROUP_FROM: Final = 4
"""Where the group's id begins in a key: behind the type and its own length."""
_SHARED_BYTES_MIN: Final = 10
"""An empty text, the commit time, and the number of tagged fields or one byte more of the text's length."""
_Shared = tuple[str, Times]


def take_commits(records: Sequence[LogRecord], at: int, out: list[Record]) -> int:
    """Add the records of ours for the committed offsets that stand at `at` and behind it. Return where
    something else follows: a tombstone, a value of an older version or with unknown fields, another type, or
    what is no record of Kafka at all."""
    end = len(records)
    while at < end:
        _, key, value = records[at]
        if value is None or key[:2] != KIND:
            return at
        version = value[:2]
        if version not in (_FIXED, COMPACT):
            return at
        begin, prefix, shared = at, key[:-PARTITION_BYTES], value[_SHARED_FROM:]
        rows = [key[-PARTITION_BYTES:] + value[2:_SHARED_FROM]]
        at += 1
        while at < end:
            _, key, value = records[at]
            if (
                value is None
                or value[_SHARED_FROM:] != shared
                or key[:-PARTITION_BYTES] != prefix
                or value[:2] != version
            ):
                break
            rows.append(key[-PARTITION_BYTES:] + value[2:_SHARED_FROM])
            at += 1
        named, read = _named(prefix), _shared(version, shared)
        if named is None or read is None:
            return begin
        _write(named, read, rows, out)
    return at


def _write(named: tuple[str, str], shared: _Shared, rows: Sequence[bytes], out: list[Record]) -> None:
    """Add what a run of commits means here."""
    group_id, topic = named
    metadata, times = shared
    if len(rows) > 1 and not metadata:
        out += packed_records(group_id, topic, b"".join(rows), times)
        return
    for row in rows:
        partition, offset, leader_epoch = unpack_row(row)
        key = new_tuple(OffsetCommitKey, (OFFSET_COMMIT, group_id, topic, partition))
        committed = new_tuple(OffsetCommitValue, (offset, leader_epoch, metadata, *times))
        out.append(new_tuple(Record, (key, committed)))


def _named(prefix: bytes) -> tuple[str, str] | None:
    """Return the group's id and the topic of a key without its partition; None if it is no such key."""
    try:
        topic_at = _GROUP_FROM + LENGTH.unpack_from(prefix, _GROUP_FROM - LENGTH.size)[0]
        begin = topic_at + LENGTH.size
        end = begin + LENGTH.unpack_from(prefix, topic_at)[0]
        if not _GROUP_FROM <= topic_at < begin <= end == len(prefix):
            return None
        return prefix[_GROUP_FROM:topic_at].decode(), prefix[begin:end].decode()
    except (struct.error, UnicodeDecodeError):
        return None


def _shared(version: bytes, shared: bytes) -> _Shared | None:
    """Return metadata and times of a value; None if it is not exactly what Kafka writes."""
    if len(shared) < _SHARED_BYTES_MIN:
        return None
    if version == _FIXED:
        begin = LENGTH.size
        end = begin + LENGTH.unpack_from(shared)[0]
        topic_id = NO_ID if len(shared) == end + TIME.size else None
    else:
        begin, end = 1, shared[0]
        topic_id = _topic_id(shared[end + TIME.size :]) if end <= ONE_BYTE_MAX else None
    if topic_id is None or end < begin:
        return None
    try:
        metadata = shared[begin:end].decode()
    except UnicodeDecodeError:
        return None
    (committed_ms,) = TIME.unpack_from(shared, end)
    return metadata, (committed_ms, NO_EXPIRY, topic_id)


def _topic_id(tags: bytes) -> bytes | None:
    """Return the topic's id in tagged fields, zeros if there are none; None if there is anything else."""
    if tags == NO_TAGS:
        return NO_ID
    is_one_id = tags[: len(TOPIC_ID_TAG)] == TOPIC_ID_TAG
    topic_id = tags[len(TOPIC_ID_TAG) :]
    return topic_id if is_one_id and len(topic_id) == len(NO_ID) else None
