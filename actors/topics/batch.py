"""Check, patch and read record batches (message format v2) as bytes, never decoded as a whole.

The layout is org.apache.kafka DefaultRecordBatch. The CRC covers everything from the attributes on, so
the base offset and the leader epoch in front of it can be set without computing it again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from actors.protocol.transaction_messages import NO_PRODUCER_ID
from actors.protocol.wire import uvarint
from actors.topics.errors import LogError, UnknownCodec

HEADER_BYTES = 61
LENGTH_FROM = 12
"""How many bytes of a batch its length does not count: those in front of the length, and the length
itself."""
CRC_FROM = 21
_HEADER = struct.Struct(">qiibIhiqqqhii")
BASE_OFFSET = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LENGTH_MIN = 14
"""The least that a batch's length can say: so many bytes a message of the oldest format has at least."""
_LEADER_EPOCH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")
MAGIC_AT = 16
_MAX_TIMESTAMP_AT = 35
MAGIC = 2

_RECORD_BYTES_MIN = 7
"""The size of the smallest record: length, attributes, two deltas, key length, value length and header count
take a byte each."""
_COMPRESSION_MASK = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
_NEGATIVE_BIT = 0x01
"""The lowest bit of a zigzag varint's first byte is set if the number is negative, as is the length of a key
that there is not."""
ZSTD = 4
NO_SEQUENCE = -1
_PLAIN = bytes(2)
"""How a record begins that has no attributes, and the time of its batch."""
_NO_HEADERS = b"\0"
_VARINTS_MAX = 4_096
"""How many numbers are remembered as varints: lengths and places of records are few."""
_ONE_BATCH = "Produce requests must have exactly one record batch per partition"
CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE = struct.Struct(">hi")
assert _HEADER.size == HEADER_BYTES


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in their order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def producer(self) -> tuple[int, int]:
        """Return the producer's id and epoch."""
        return self.producer_id, self.producer_epoch

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Return whether the batch has no records of a producer's, but markers that Kafka wrote."""
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def has_append_time(self) -> bool:
        """Return whether all records have the batch's highest time, which then is that of their append."""
        return bool(self.attributes & _LOG_APPEND_TIME_BIT)

    @property
    def compression(self) -> int:
        """Return the batch's compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _COMPRESSION_MASK


def read_header(batch: bytes) -> BatchHeader:
    return BatchHeader(*_HEADER.unpack_from(batch))


def one_batch(records: bytes | None, *, zstd_allowed: bool = True) -> bytes:
    """Return the one whole batch that a Produce request brings for one partition. Bytes behind it that are no
    whole batch are left out.

    Raises LogError: INVALID_RECORD for what no producer of format v2 sends (ProduceRequest.validateRecords),
    CORRUPT_MESSAGE for bytes that are no batch. Without `zstd_allowed` it also raises UnknownCodec; else a
    log looks at the codec.
    """
    size_bytes = None if records is None else batch_bytes(records, 0)
    if records is None or size_bytes is None:
        raise LogError(ErrorCode.invalid_record, _ONE_BATCH)
    if records[MAGIC_AT] != MAGIC:
        raise LogError(
            ErrorCode.invalid_record,
            f"Produce requests are only allowed to contain record batches with magic version {MAGIC}",
        )
    if size_bytes < HEADER_BYTES:
        raise LogError(ErrorCode.corrupt_message, "The record batch's length is not that of its bytes.")
    if not zstd_allowed:
        codec = read_header(records).compression
        if codec == ZSTD:
            # KIP-110: an old client that produces zstd could not read it back.
            raise LogError(ErrorCode.unsupported_compression_type, "zstd needs Produce version 7 or later.")
        if codec > ZSTD:
            raise UnknownCodec(ErrorCode.unknown_server_error, f"Unknown compression type {codec}.")
    if batch_bytes(records, size_bytes) is not None:
        raise LogError(ErrorCode.invalid_record, _ONE_BATCH)
    return records if size_bytes == len(records) else records[:size_bytes]


def batch_bytes(records: bytes, at: int) -> int | None:
    """Return how many bytes the batch at `at` has; None if it does not end within the records. Raises
    LogError with CORRUPT_MESSAGE if what stands there can be no batch."""
    left = len(records) - at
    if left < LENGTH_FROM:
        return None
    (length,) = _LENGTH.unpack_from(records, at + LENGTH_FROM - _LENGTH.size)
    if length < _LENGTH_MIN:
        raise LogError(
            ErrorCode.corrupt_message,
            f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})",
        )
    if left <= MAGIC_AT:
        return None
    if records[at + MAGIC_AT] > MAGIC:
        raise LogError(ErrorCode.corrupt_message, f"Invalid magic found in record: {records[at + MAGIC_AT]}")
    size_bytes: int = LENGTH_FROM + length
    return size_bytes if size_bytes <= left else None


def check_batch(batch: bytes, message_bytes_max: int) -> BatchHeader:
    """Return the header of a batch (see `one_batch`) that a log may take.

    Raises LogError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE for damaged bytes, or what LogValidator says of a
    batch's contents.
    """
    header = read_header(batch)
    if header.base_offset:
        raise LogError(
            ErrorCode.invalid_record,
            f"The baseOffset of the record batch in the append should be 0, but it is {header.base_offset}",
        )
    if len(batch) > message_bytes_max:
        raise LogError(
            ErrorCode.message_too_large,
            f"The record batch size is {len(batch)} bytes which exceeds the maximum configured value of "
            f"{message_bytes_max}.",
        )
    if crc32c(memoryview(batch)[CRC_FROM:]) != header.crc:
        raise LogError(ErrorCode.corrupt_message, "Record batch is corrupt (its CRC does not match).")
    _check_contents(header)
    return header


def _check_contents(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise LogError(
            ErrorCode.invalid_record,
            f"Inconsistent batch: {header.record_count} records, last delta {header.last_offset_delta}",
        )
    if not header.compression and header.record_count * _RECORD_BYTES_MIN > header.batch_length:
        raise LogError(ErrorCode.invalid_record, f"{header.record_count} records do not fit this batch")
    if header.attributes & _CONTROL_BIT:
        raise LogError(ErrorCode.invalid_record, "Clients are not allowed to write control records")
    if header.compression > ZSTD:
        raise LogError(ErrorCode.unknown_server_error, f"Unknown compression type {header.compression}.")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise LogError(
            ErrorCode.invalid_record,
            f"Invalid sequence number {header.base_sequence} in record batch "
            f"with producerId {header.producer_id}",
        )


def placed(records: bytes, base_offset: int, leader_epoch: int, log_append_time_ms: int | None) -> bytes:
    """Return the batch as it stands in the log. A log append time becomes every record's timestamp."""
    batch = bytearray(records)
    BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, LENGTH_FROM, leader_epoch)
    if log_append_time_ms is not None:
        (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_FROM)
        _ATTRIBUTES.pack_into(batch, CRC_FROM, attributes | _LOG_APPEND_TIME_BIT)
        _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, log_append_time_ms)
        _CRC.pack_into(batch, CRC_FROM - _CRC.size, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def transactional_header(records: bytes | None) -> BatchHeader | None:
    """Return the header of a transactional batch; None for any other, damaged ones too."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] != MAGIC:
        return None
    header = read_header(records)
    return header if header.is_transactional else None


def end_marker(
    producer: tuple[int, int], committed: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """Return a control batch that ends a transaction of `producer`, to be `placed`; org.apache.kafka
    EndTransactionMarker and ControlRecordType."""
    key, value = CONTROL_KEY.pack(0, int(committed)), _CONTROL_VALUE.pack(0, coordinator_epoch)
    body = b"\0\0\0" + bytes((2 * len(key),)) + key + bytes((2 * len(value),)) + value + b"\0"
    record = bytes((2 * len(body),)) + body
    attributes = _TRANSACTIONAL_BIT | _CONTROL_BIT
    length = HEADER_BYTES - LENGTH_FROM + len(record)
    batch = bytearray(
        _HEADER.pack(
            0, length, 0, MAGIC, 0, attributes, 0, timestamp_ms, timestamp_ms, *producer, NO_SEQUENCE, 1
        )
        + record
    )
    _CRC.pack_into(batch, CRC_FROM - _CRC.size, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def plain_batch(records: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int) -> bytes:
    """Return a batch of these keys and values, to be `placed`; a value that is None is a tombstone."""
    return _batch(records, timestamp_ms, 0, (NO_PRODUCER_ID, -1, NO_SEQUENCE))


def transactional_batch(
    records: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int, producer: tuple[int, int]
) -> bytes:
    """Return a batch of a transaction of `producer`, as a coordinator writes it: it has the sequence 0."""
    return _batch(records, timestamp_ms, _TRANSACTIONAL_BIT, (*producer, 0))


def _batch(
    records: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    attributes: int,
    producer: tuple[int, int, int],
) -> bytes:
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        size = _varint(-1 if value is None else len(value))
        record = b"".join((_PLAIN, _varint(delta), _varint(len(key)), key, size, value or b"", _NO_HEADERS))
        parts += (_varint(len(record)), record)
    body = b"".join(parts)
    length = HEADER_BYTES - LENGTH_FROM + len(body)
    first, times = (0, length, 0, MAGIC, 0, attributes), (timestamp_ms, timestamp_ms)
    batch = bytearray(_HEADER.pack(*first, len(records) - 1, *times, *producer, len(records)) + body)
    _CRC.pack_into(batch, CRC_FROM - _CRC.size, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def first_since(batch: bytes, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Return (offset, timestamp) of the batch's first record from `start_offset` on that is at least so
    young.

    Records are told apart only if that needs no decompression; else the batch's first record stands for all.
    """
    header = read_header(batch)
    if header.max_timestamp_ms < timestamp_ms:
        return None
    if not header.attributes & (_LOG_APPEND_TIME_BIT | _COMPRESSION_MASK):
        seen = 0
        for offset, record_timestamp_ms, _, _ in _records(batch, header):
            if record_timestamp_ms >= timestamp_ms and offset >= start_offset:
                return offset, record_timestamp_ms
            seen += 1
        if seen == header.record_count:
            return None
    return max(header.base_offset, start_offset), header.max_timestamp_ms


def newest(batch: bytes, start_offset: int) -> tuple[int, int]:
    """Return (offset, timestamp) of the first record that has the batch's highest timestamp; if the records
    cannot be told apart, the last one's offset."""
    header = read_header(batch)
    if not header.attributes & (_LOG_APPEND_TIME_BIT | _COMPRESSION_MASK):
        for offset, timestamp_ms, _, _ in _records(batch, header):
            if timestamp_ms == header.max_timestamp_ms and offset >= start_offset:
                return offset, timestamp_ms
    return header.last_offset, header.max_timestamp_ms


def plain_records(batch: bytes, header: BatchHeader) -> Iterator[tuple[int, bool]]:
    """Yield the timestamp of each record of a batch that is not compressed, and whether it has a key. Raises
    LogError with INVALID_RECORD at the end if the batch has not just the records that its header counts."""
    seen, end = 0, HEADER_BYTES
    for _, timestamp_ms, has_key, end_at in _records(batch, header):
        seen, end = seen + 1, end_at
        yield header.max_timestamp_ms if header.has_append_time else timestamp_ms, has_key
    if seen != header.record_count or end != len(batch):
        raise LogError(
            ErrorCode.invalid_record,
            f"The batch counts {header.record_count} records, which are not what stands in it",
        )


def _records(batch: bytes, header: BatchHeader) -> Iterator[tuple[int, int, bool, int]]:
    """Yield of each record its offset, its timestamp in ms, whether it has a key, and where it ends; for a
    batch that is not compressed.

    It stops early at bytes that are no records: a CRC says that bytes are as the producer made them, no more.
    """
    at = HEADER_BYTES
    for _ in range(header.record_count):
        try:
            length, body_at = read_varint(batch, at)
            timestamp_delta, delta_at = read_varint(batch, body_at + 1)
            offset_delta, key_at = read_varint(batch, delta_at)
            has_key = not batch[key_at] & _NEGATIVE_BIT
        except IndexError:
            return
        at = body_at + length
        if length <= 0 or at > len(batch):
            return
        yield header.base_offset + offset_delta, header.base_timestamp_ms + timestamp_delta, has_key, at


def read_varint(batch: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the offset behind it. Raises IndexError at the batch's end."""
    byte = batch[at]
    if byte < 0x80:  # nearly all are so small
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = shift = 0
    while True:
        byte = batch[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise IndexError(at)


@lru_cache(maxsize=_VARINTS_MAX)
def _varint(number: int) -> bytes:
    """Return a zigzag varint of at most 32 bits."""
    return uvarint((number << 1) ^ (number >> 31))
