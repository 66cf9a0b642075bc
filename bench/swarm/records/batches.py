"""Record batches (message format v2) that a producer writes and a consumer counts, no more. PURE."""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from actors.protocol.transaction_messages import NO_PRODUCER_ID
from actors.protocol.wire import uvarint
from actors.topics.batch import HEADER_BYTES, MAGIC, NO_SEQUENCE, BatchHeader, read_header

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_LENGTH_FROM: Final = 12
"""The batch length counts the bytes behind itself."""
RECORD_BYTES_MIN: Final = 16


def batch(count: int, record_bytes: int, now_ms: int) -> bytes:
    """Make a batch of so many records of about that size. They have no key, zeros for a value, and the time
    `now_ms`."""
    value = bytes(max(0, record_bytes - RECORD_BYTES_MIN))
    tail = _varint(-1) + _varint(len(value)) + value + _varint(0)
    records = b"".join(_sized(b"\0" + _varint(0) + _varint(delta) + tail) for delta in range(count))
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - _LENGTH_FROM + len(records),
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    raw = bytearray(_HEADER.pack(*header) + records)
    _CRC.pack_into(raw, _CRC_AT, crc32c(memoryview(raw)[_CRC_FROM:]))
    return bytes(raw)


def next_offset(records: bytes | None) -> int | None:
    """The offset behind the last whole batch; None: there is no whole batch. A broker may cut the last one
    short."""
    at, behind = 0, None
    while records and len(records) - at >= HEADER_BYTES:
        header = read_header(records[at : at + HEADER_BYTES])
        at += _LENGTH_FROM + header.batch_length
        if at > len(records):
            break
        behind = header.base_offset + header.last_offset_delta + 1
    return behind


def _sized(record: bytes) -> bytes:
    return _varint(len(record)) + record


def _varint(value: int) -> bytes:
    """Encode a number as records have it: a zigzag varint."""
    return uvarint((value << 1) ^ (value >> 31))
