"""The bytes of a journal: segments of one header and then records, and the mark. Little-endian.

    header  = magic (4) | format version (2) | body length (4) | crc32c (4) | body (msgpack)
    body    = [tier id, replica id, sequence, previous index, previous term, term, vote,
               base index, base term, incarnation, founders]
    record  = magic (4) | payload length (4) | crc32c of payload, seeded (4) | payload
    payload = kind (1) and fields, see the structs
    mark    = magic (4) | sequence (8) | end (8) | crc32c of these (4)

A record's checksum starts from its segment's header checksum (the seed) xor its offset: bytes of another
segment, of another place in this one, or a command that happens to hold a record, are never taken for one.

A segment's header repeats the hard state and where the log stood, so that older segments can go.
Marks in front of each record make it cheap to see whether whole records follow a damaged one.

Format version 1 (read, never written) has no fields after `vote`, checksums only the body of its header, and
leaves the offset out of a record's seed.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgpack
from crc32c import crc32c

from storage.raft.members import FOUNDING_INCARNATION, Members, check

FORMAT_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, 2)
HEADER_MAGIC: Final = b"GRPJ"
RECORD_MAGIC: Final = b"\xf5\x9arj"
MARK_MAGIC: Final = b"GRPM"
HEADER: Final = struct.Struct("<4sHII")
HEADER_FIXED: Final = struct.Struct("<4sHI")
"""The part of HEADER that the checksum covers, with the body, from version 2 on."""
RECORD: Final = struct.Struct("<4sII")
ENTRY: Final = struct.Struct("<BQQ")
POSITION: Final = struct.Struct("<BQQ")
HARD_STATE: Final = struct.Struct("<BQ")
MARK: Final = struct.Struct("<4sQQ")
CHECKSUM: Final = struct.Struct("<I")

ENTRY_OVERHEAD_BYTES: Final = RECORD.size + ENTRY.size
"""How many bytes a record has besides its entry's command."""
KIND_ENTRY: Final = 1
KIND_TRUNCATE: Final = 2
KIND_HARD_STATE: Final = 3
KIND_RESET: Final = 4

SEARCH_FACTOR: Final = 16
"""How many bytes are checksummed in search of a whole record behind damage, as a multiple of the bytes there:
what clients write must not make the search take forever."""

Entry = tuple[bytes, int, int]
"""An entry as (command, index, term), the order in which pysyncobj keeps them; the first byte of a command is
its kind, as in pysyncobj."""


class SegmentHeader(NamedTuple):
    """The replica to which a segment belongs, and what held when the segment was begun. The defaults are
    those of version 1."""

    tier_id: str
    replica_id: str
    sequence: int
    previous_index: int
    previous_term: int
    term: int
    vote: str | None
    base_index: int = 0
    """The index up to which a durable snapshot covers the entries."""
    base_term: int = 0
    incarnation: int = FOUNDING_INCARNATION
    founders: Members = ()


class Frame(NamedTuple):
    """A segment's header, and how to read the records behind it."""

    header: SegmentHeader
    start: int
    """The offset of the first record."""
    seed: int
    version: int


class Mark(NamedTuple):
    """How far the journal is synced: the segment `sequence` was whole and synced up to byte `end`, and every
    older one was."""

    sequence: int
    end: int


class Truncate(NamedTuple):
    """The record that entries above `end_index` are gone; `term` is the term of the entry there."""

    end_index: int
    term: int


class Reset(NamedTuple):
    """The record that the log is empty and stands at `end_index`, because a snapshot was installed."""

    end_index: int
    term: int


class HardState(NamedTuple):
    term: int
    vote: str | None


Record = Entry | Truncate | Reset | HardState


class Torn(NamedTuple):
    """The place where whole records end. If whole ones (seem to) follow it, it is damage and no torn tail."""

    offset: int
    whole_records_follow: bool


def encode_header(header: SegmentHeader) -> bytes:
    body: bytes = msgpack.packb(tuple(header))
    crc = _header_crc(HEADER_MAGIC, FORMAT_VERSION, body)
    return HEADER.pack(HEADER_MAGIC, FORMAT_VERSION, len(body), crc) + body


def seed_of(header: bytes) -> int:
    """Return the seed of the records that follow this encoded header."""
    seed: int = HEADER.unpack_from(header)[3]
    return seed


def decode_header(content: bytes) -> Frame | None:
    """Return the header that the bytes hold; None if it is not whole. Raises ValueError for a format version
    that this release cannot read."""
    if len(content) < HEADER.size:
        return None
    magic, version, length, crc = HEADER.unpack_from(content)
    if magic != HEADER_MAGIC:
        return None
    if version not in READABLE_VERSIONS:
        raise ValueError(f"format version {version}, this release reads {READABLE_VERSIONS}")
    body = content[HEADER.size : HEADER.size + length]
    if len(body) != length or _header_crc(magic, version, body) != crc:
        return None
    header = SegmentHeader(*msgpack.unpackb(body, use_list=False))
    header = header._replace(founders=check(header.founders))
    return Frame(header, HEADER.size + length, crc, version)


def _header_crc(magic: bytes, version: int, body: bytes) -> int:
    fixed = HEADER_FIXED.pack(magic, version, len(body)) if version > 1 else b""
    crc: int = crc32c(body, crc32c(fixed))
    return crc


def encode_mark(mark: tuple[int, int]) -> bytes:
    content = MARK.pack(MARK_MAGIC, *mark)
    return content + CHECKSUM.pack(crc32c(content))


def decode_mark(content: bytes) -> Mark | None:
    """Return the mark that the bytes hold; None if it is not whole: a mark only adds to what the segments
    say."""
    if len(content) != MARK.size + CHECKSUM.size:
        return None
    magic, sequence, end = MARK.unpack_from(content)
    (crc,) = CHECKSUM.unpack_from(content, MARK.size)
    return Mark(sequence, end) if magic == MARK_MAGIC and crc == crc32c(content[: MARK.size]) else None


def within(entries: list[Entry], start: int, bytes_max: int) -> list[Entry]:
    """Return the entries from position `start` on, at least one if there is one, up to `bytes_max` of
    commands."""
    size, end = 0, start
    for end in range(start, len(entries)):
        size += len(entries[end][0])
        if size > bytes_max and end > start:
            return entries[start:end]
    return entries[start : end + 1]


def size_of(entries: list[Entry]) -> int:
    """Return how many bytes the entries take as records."""
    return sum(len(command) + ENTRY_OVERHEAD_BYTES for command, _, _ in entries)


def encode_all(records: list[Record], seed: int, offset: int) -> bytes:
    """Return the records as they are written from `offset` on. `seed` is the segment's."""
    pieces: list[bytes] = []
    record: Any
    for record in records:
        if type(record) is tuple:  # an entry, as nearly all are
            command, index, term = record
            fields = ENTRY.pack(KIND_ENTRY, index, term)
            crc = crc32c(command, crc32c(fields, seed ^ offset))
            head = RECORD.pack(RECORD_MAGIC, ENTRY.size + len(command), crc) + fields
        else:
            head = _encode(record, seed ^ offset)
            command = b""
        pieces += (head, command)
        offset += len(head) + len(command)
    return b"".join(pieces)


def _encode(record: HardState | Truncate | Reset, seed: int) -> bytes:
    match record:
        case HardState(term, vote):
            fields = HARD_STATE.pack(KIND_HARD_STATE, term) + (vote or "").encode()
        case Truncate(index, term):
            fields = POSITION.pack(KIND_TRUNCATE, index, term)
        case Reset(index, term):
            fields = POSITION.pack(KIND_RESET, index, term)
    return RECORD.pack(RECORD_MAGIC, len(fields), crc32c(fields, seed)) + fields


def scan(content: bytes, offset: int, seed: int, version: int = FORMAT_VERSION) -> Iterator[Record | Torn]:
    """Yield the records from `offset` on; the last thing yielded is a Torn if not all bytes were whole.
    Raises ValueError for a record that a newer release wrote."""
    size = len(content)
    view = memoryview(content)
    placed = version > 1
    unpack_record, unpack_entry = RECORD.unpack_from, ENTRY.unpack_from
    while offset < size:
        start = offset + RECORD.size
        if start >= size:
            break
        magic, length, crc = unpack_record(content, offset)
        end = start + length
        if magic != RECORD_MAGIC or length < 1 or end > size:
            break
        if crc32c(view[start:end], seed ^ offset if placed else seed) != crc:
            break
        if content[start] == KIND_ENTRY:
            _, index, term = unpack_entry(content, start)
            yield content[start + ENTRY.size : end], index, term
        else:
            yield _decode(content[start:end])
        offset = end
    if offset < size:
        yield Torn(offset, _whole_record_after(view, offset, seed, placed=placed))


def _whole_record_after(view: memoryview, offset: int, seed: int, *, placed: bool) -> bool:
    """Return whether a whole record follows. That is also said if the search had to be given up: what may be
    damage is not cut."""
    content = view.obj
    assert isinstance(content, bytes)
    allowance_bytes = SEARCH_FACTOR * (len(content) - offset)
    position = content.find(RECORD_MAGIC, offset + 1)
    while position >= 0 and position + RECORD.size < len(content):
        _, length, crc = RECORD.unpack_from(content, position)
        payload = view[position + RECORD.size : position + RECORD.size + length]
        if 0 < length == len(payload):
            allowance_bytes -= length
            if allowance_bytes < 0 or crc32c(payload, seed ^ position if placed else seed) == crc:
                return True
        position = content.find(RECORD_MAGIC, position + 1)
    return False


def _decode(payload: bytes) -> Truncate | Reset | HardState:
    kind = payload[0]
    if kind == KIND_HARD_STATE:
        _, term = HARD_STATE.unpack_from(payload)
        return HardState(term, payload[HARD_STATE.size :].decode() or None)
    if kind not in (KIND_TRUNCATE, KIND_RESET):
        raise ValueError(f"record kind {kind}, this release knows kinds 1 to 4")
    _, index, term = POSITION.unpack_from(payload)
    return Truncate(index, term) if kind == KIND_TRUNCATE else Reset(index, term)
