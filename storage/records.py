"""The bytes of a journal segment: one header, then records. Little-endian.

    header  = magic (4) | format version (2) | body length (4) | crc32c of body (4) | body (msgpack)
    body    = [tier id, replica id, sequence, previous index, previous term, term, vote]
    record  = magic (4) | payload length (4) | crc32c of payload, seeded (4) | payload
    payload = kind (1) and fields, see the structs

A record's checksum starts from its segment's header checksum (the seed): bytes of another segment, or a
command that happens to hold a record, are never taken for one.

A segment's header repeats the hard state and where the log stood, so that older segments can go.
Marks in front of each record make it cheap to see whether whole records follow a damaged one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgpack
from crc32c import crc32c

FORMAT_VERSION: Final = 1
HEADER_MAGIC: Final = b"GRPJ"
RECORD_MAGIC: Final = b"\xf5\x9arj"
HEADER: Final = struct.Struct("<4sHII")
RECORD: Final = struct.Struct("<4sII")
ENTRY: Final = struct.Struct("<BQQ")
POSITION: Final = struct.Struct("<BQQ")
HARD_STATE: Final = struct.Struct("<BQ")

KIND_ENTRY: Final = 1
KIND_TRUNCATE: Final = 2
KIND_HARD_STATE: Final = 3
KIND_RESET: Final = 4

Entry = tuple[bytes, int, int]
"""(command, index, term), the order in which pysyncobj keeps them; the first byte of a command is its
kind, as in pysyncobj."""


class SegmentHeader(NamedTuple):
    """Whose segment it is, and what held when it was begun."""

    tier_id: str
    replica_id: str
    sequence: int
    previous_index: int
    previous_term: int
    term: int
    vote: str | None


class Truncate(NamedTuple):
    """Entries above `end_index` are gone; `term` is the term of the entry there."""

    end_index: int
    term: int


class Reset(NamedTuple):
    """The log is empty and stands at `end_index`: a snapshot was installed."""

    end_index: int
    term: int


class HardState(NamedTuple):
    term: int
    vote: str | None


Record = Entry | Truncate | Reset | HardState


class Torn(NamedTuple):
    """Where whole records end, and whether whole ones follow later (damage, not a torn tail)."""

    offset: int
    whole_records_follow: bool


def encode_header(header: SegmentHeader) -> bytes:
    body: bytes = msgpack.packb(tuple(header))
    return HEADER.pack(HEADER_MAGIC, FORMAT_VERSION, len(body), crc32c(body)) + body


def seed_of(header: bytes) -> int:
    """The seed of the records that follow this encoded header."""
    seed: int = HEADER.unpack_from(header)[3]
    return seed


def decode_header(content: bytes) -> tuple[SegmentHeader, int] | None:
    """The header and where records begin; None if it is not whole. ValueError for another format version."""
    if len(content) < HEADER.size:
        return None
    magic, version, length, crc = HEADER.unpack_from(content)
    body = content[HEADER.size : HEADER.size + length]
    if magic != HEADER_MAGIC or len(body) != length or crc32c(body) != crc:
        return None
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version}, this release reads version {FORMAT_VERSION}")
    return SegmentHeader(*msgpack.unpackb(body, use_list=False)), HEADER.size + length


def encode_entry(entry: Entry, seed: int) -> tuple[bytes, bytes]:
    """Two pieces to be written one after the other: a big command is not copied for its header's sake."""
    command, index, term = entry
    prefix = ENTRY.pack(KIND_ENTRY, index, term)
    crc = crc32c(command, crc32c(prefix, seed))
    return RECORD.pack(RECORD_MAGIC, ENTRY.size + len(command), crc) + prefix, command


def encode_record(record: Truncate | Reset | HardState, seed: int) -> bytes:
    match record:
        case HardState(term, vote):
            payload = HARD_STATE.pack(KIND_HARD_STATE, term) + (vote or "").encode()
        case Truncate(index, term):
            payload = POSITION.pack(KIND_TRUNCATE, index, term)
        case Reset(index, term):
            payload = POSITION.pack(KIND_RESET, index, term)
    return RECORD.pack(RECORD_MAGIC, len(payload), crc32c(payload, seed)) + payload


def scan(content: bytes, offset: int, seed: int) -> Iterator[Record | Torn]:
    """Yield the records from `offset` on; the last thing yielded is a Torn if not all bytes were whole."""
    while offset < len(content):
        payload = _payload_at(content, offset, seed)
        if payload is None:
            yield Torn(offset, _whole_record_after(content, offset, seed))
            return
        yield _decode(payload)
        offset += RECORD.size + len(payload)


def _payload_at(content: bytes, offset: int, seed: int) -> bytes | None:
    start = offset + RECORD.size
    if start > len(content):
        return None
    magic, length, crc = RECORD.unpack_from(content, offset)
    if magic != RECORD_MAGIC or length < 1 or start + length > len(content):
        return None
    payload = content[start : start + length]
    return payload if crc32c(payload, seed) == crc else None


def _whole_record_after(content: bytes, offset: int, seed: int) -> bool:
    position = content.find(RECORD_MAGIC, offset + 1)
    while position >= 0:
        if _payload_at(content, position, seed) is not None:
            return True
        position = content.find(RECORD_MAGIC, position + 1)
    return False


def _decode(payload: bytes) -> Record:
    kind = payload[0]
    if kind == KIND_ENTRY:
        _, index, term = ENTRY.unpack_from(payload)
        return payload[ENTRY.size :], index, term
    if kind == KIND_HARD_STATE:
        _, term = HARD_STATE.unpack_from(payload)
        return HardState(term, payload[HARD_STATE.size :].decode() or None)
    _, index, term = POSITION.unpack_from(payload)
    if kind == KIND_TRUNCATE:
        return Truncate(index, term)
    if kind == KIND_RESET:
        return Reset(index, term)
    raise ValueError(f"record kind {kind}, this release knows kinds 1 to 4")
