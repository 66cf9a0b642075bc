"""The records that a Fetch brings, as a person wants to see them. PURE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actors.protocol.wire import read_uvarint
from actors.topics.batch import HEADER_BYTES, read_header

_LENGTH_FROM: Final = 12
COMPRESSED: Final = b"(compressed)"


def values(records: bytes | None, since: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and value of each record from the offset `since` on. Those of a compressed batch are not
    unpacked; a batch that is cut short is left out."""
    at = 0
    while records and len(records) - at >= HEADER_BYTES:
        header = read_header(records[at : at + HEADER_BYTES])
        end = at + _LENGTH_FROM + header.batch_length
        if end > len(records):
            return
        if header.compression:
            offsets = range(header.base_offset, header.base_offset + header.last_offset_delta + 1)
            found: Iterator[tuple[int, bytes | None]] = ((offset, COMPRESSED) for offset in offsets)
        else:
            found = _plain(records[at:end], header.base_offset, header.record_count)
        yield from (each for each in found if each[0] >= since)
        at = end


def _plain(batch: bytes, base_offset: int, count: int) -> Iterator[tuple[int, bytes | None]]:
    at = HEADER_BYTES
    for _ in range(count):
        length, begin = _varint(batch, at)
        at = begin + length
        _, place = _varint(batch, begin + 1)
        delta, place = _varint(batch, place)
        key_length, place = _varint(batch, place)
        value_length, place = _varint(batch, place + max(key_length, 0))
        yield base_offset + delta, None if value_length < 0 else batch[place : place + value_length]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint. Records' times may be longer than lengths: only their end counts."""
    end = at
    while raw[end] & 0x80:
        end += 1
    if end - at >= 5:
        return 0, end + 1
    number, behind = read_uvarint(raw, at)
    return (number >> 1) ^ -(number & 1), behind
