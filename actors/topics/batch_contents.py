"""The records of batches (message format v2) as keys and values, for who reads a log that brokers wrote.
PURE.

A log that only passes batches on looks at `actors.topics.batch` and never needs this.
"""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from actors.topics.batch import (
    BASE_OFFSET,
    CONTROL_KEY,
    CRC_FROM,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    batch_bytes,
    read_header,
    read_varint,
)
from actors.topics.errors import LogError


class Record(NamedTuple):
    """One record of a batch. Its headers are left out."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def whole_batches(records: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield header and bytes of each batch that ends within `records`: a Fetch may cut the last one short.
    Raises LogError with CORRUPT_MESSAGE for bytes that are no batch or do not match their CRC."""
    at = 0
    while (size_bytes := batch_bytes(records, at)) is not None:
        if records[at + MAGIC_AT] != MAGIC:
            (offset,) = BASE_OFFSET.unpack_from(records, at)
            text = (
                f"the batch at offset {offset} has format {records[at + MAGIC_AT]}, and {MAGIC} is read here"
            )
            raise LogError(ErrorCode.corrupt_message, text)
        batch = records[at : at + size_bytes]
        if size_bytes < HEADER_BYTES:
            raise LogError(ErrorCode.corrupt_message, f"a batch of {size_bytes} bytes has no whole header")
        header = read_header(batch)
        if crc32c(memoryview(batch)[CRC_FROM:]) != header.crc:
            raise LogError(
                ErrorCode.corrupt_message, f"the batch at offset {header.base_offset} does not match its CRC"
            )
        yield header, batch
        at += size_bytes


def contents(batch: bytes, header: BatchHeader) -> Iterator[Record]:
    """Yield the records of a batch. Raises LogError: UNSUPPORTED_COMPRESSION_TYPE if it is compressed,
    CORRUPT_MESSAGE if it has not just the records that its header counts."""
    if header.compression:
        raise LogError(
            ErrorCode.unsupported_compression_type,
            f"the batch at offset {header.base_offset} is compressed, which is not read here",
        )
    at = HEADER_BYTES
    for _ in range(header.record_count):
        try:
            record, at = _record(batch, at, header)
        except IndexError:
            at = -1
            break
        yield record
    if at != len(batch):
        raise LogError(
            ErrorCode.corrupt_message,
            f"the batch at offset {header.base_offset} counts {header.record_count} records, "
            "which are not what stands in it",
        )


def _record(batch: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    """Read the record at `at`, and return it with where it ends. Raises IndexError if it does not end within
    the batch."""
    length, body_at = read_varint(batch, at)
    end = body_at + length
    if length <= 0 or end > len(batch):
        raise IndexError(at)
    timestamp_delta, at = read_varint(batch, body_at + 1)
    offset_delta, at = read_varint(batch, at)
    key, at = _sized(batch, at)
    value, at = _sized(batch, at)
    if at > end:
        raise IndexError(at)
    timestamp_ms = (
        header.max_timestamp_ms if header.has_append_time else header.base_timestamp_ms + timestamp_delta
    )
    return Record(header.base_offset + offset_delta, timestamp_ms, key, value), end


def _sized(batch: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(batch, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(batch):
        raise IndexError(at)
    return batch[at:end], end


def control_type(key: bytes | None) -> int | None:
    """Return the type of a control record (org.apache.kafka ControlRecordType), which stands in its key; None
    if the key has none."""
    if key is None or len(key) < CONTROL_KEY.size:
        return None
    number: int = CONTROL_KEY.unpack_from(key)[1]
    return number
