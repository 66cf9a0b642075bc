"""Committed offsets as Kafka's coordinators write them, which are nearly all of their records, without a
codec's detours.

Key and value are those of OffsetCommitKey version 1 and OffsetCommitValue version 4. What they have in front
of and behind partition, offset and leader epoch is the same for all that a request commits of a topic, and
made once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from actors.coordinator.kafka_records.codec import RecordBytes
from actors.coordinator.kafka_records.schemas import NO_ID
from actors.ground.contract import new_tuple
from actors.ground.records import NO_EXPIRY
from actors.protocol.offset_rows import chunks_of

KIND: Final = b"\0\1"
COMPACT: Final = b"\0\4"
"""A value's version: offset, leader epoch, metadata as a compact text, commit time, tagged fields."""
PARTITION_BYTES: Final = 4
LENGTH: Final = struct.Struct(">h")
TIME: Final = struct.Struct(">q")
NO_TAGS: Final = b"\0"
TOPIC_ID_TAG: Final = b"\1\0\x10"
"""What stands in front of the topic's id: there is one tagged field, number 0, of 16 bytes."""
ONE_BYTE_MAX: Final = 0x7F
"""The longest compact text, with the one that is added to its length, whose length has one byte."""
TEXT_BYTES_MAX: Final = 0x7FFF


def records_of(
    group_id: str, topic: str, rows: bytes, metadata: str, times: tuple[int, int, bytes]
) -> Iterator[RecordBytes] | None:
    """Return the records of rows as `actors.protocol.offset_rows` has them; `times` are commit time, expiry
    and the topic's id. None: these are for the codec, because they expire, or a text is long or wrong."""
    committed_ms, expire_ms, topic_id = times
    try:
        group, name, text = group_id.encode(), topic.encode(), metadata.encode()
    except UnicodeEncodeError:
        return None
    if max(len(group), len(name)) > TEXT_BYTES_MAX or len(text) >= ONE_BYTE_MAX or expire_ms != NO_EXPIRY:
        return None
    front = b"".join((KIND, LENGTH.pack(len(group)), group, LENGTH.pack(len(name)), name))
    tags = NO_TAGS if topic_id == NO_ID else TOPIC_ID_TAG + topic_id
    behind = b"".join((bytes((len(text) + 1,)), text, TIME.pack(committed_ms), tags))
    return (
        new_tuple(RecordBytes, (front + row[:PARTITION_BYTES], COMPACT + row[PARTITION_BYTES:] + behind))
        for row in chunks_of(rows)
    )
