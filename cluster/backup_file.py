"""One file of a backup: the records of one Raft group, as of one entry of its log. Little-endian.

    file    = header (HEADER_BYTES, padded with zeros) | frames
    header  = magic (4) | format version (2) | body length (4) | crc32c of body (4) | body
    body    = [tier id, group, commit index, term, records, bytes and crc32c of all frames] (msgpack)
    frame   = payload length (4) | crc32c of payload (4) | payload
    payload = records, each [key, value] (msgpack)

A frame is checked before anything in it is believed; the header's checksum shows that no frame is missing,
comes twice or stands in another's place.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack
from crc32c import crc32c

from actors.ground.limits import MIB
from cluster.tier_file import TierError

FORMAT_VERSION: Final = 1
MAGIC: Final = b"GRPB"
HEADER: Final = struct.Struct("<4sHII")
HEADER_BYTES: Final = 512
FRAME: Final = struct.Struct("<II")
FRAME_BYTES: Final = 64 * 1024
"""The length in bytes at which a frame ends: the record that makes it this long is its last."""
FRAME_BYTES_MAX: Final = 64 * MIB
"""The most bytes of a frame. One record may be large; what claims to be larger than this is damage."""

PackedRecord = tuple[tuple[Any, ...], tuple[Any, ...]]
"""A record as plain tuples (key, value); the key begins with the record's kind and its group id or topic."""


class BackupDamaged(TierError):
    """Raised if a backup is not what was written; the text names the file and what is wrong."""


class FileHeader(NamedTuple):
    """The header of a file: what the file holds."""

    tier_id: str
    group: str
    """The Raft group: "controller" or "partition-<p>"."""
    commit_index: int
    """The entry of the group's Raft log after which the state was as it stands here."""
    term: int
    """The term of that entry."""
    records: int
    frames_bytes: int
    frames_crc: int
    """The crc32c of all frames."""

    @property
    def file_name(self) -> str:
        return file_name(self.group)

    @property
    def file_bytes(self) -> int:
        return HEADER_BYTES + self.frames_bytes


def file_name(group: str) -> str:
    return f"{group}.records"


class RecordFile:
    """A file that is being written. It is a context manager; nothing can be read from the file before
    `finish`.

    Every method raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._file.write(bytes(HEADER_BYTES))
        self._packer = msgpack.Packer(autoreset=False)
        self._records = 0
        self._bytes = 0
        self._crc = 0

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def add(self, record: PackedRecord) -> None:
        self._packer.pack(record)
        self._records += 1
        if len(self._packer.getbuffer()) >= FRAME_BYTES:
            self._end_frame()

    def finish(self, tier_id: str, group: str, commit_index: int, term: int) -> FileHeader:
        """Write the header, durably, and return it. No record can be added any more."""
        self._end_frame()
        header = FileHeader(tier_id, group, commit_index, term, self._records, self._bytes, self._crc)
        self._file.seek(0)
        self._file.write(_encoded(header))
        self._file.flush()
        os.fsync(self._file.fileno())
        return header

    def _end_frame(self) -> None:
        payload = self._packer.bytes()
        self._packer.reset()
        if not payload:
            return
        prefix = FRAME.pack(len(payload), crc32c(payload))
        self._file.write(prefix)
        self._file.write(payload)
        self._bytes += FRAME.size + len(payload)
        self._crc = crc32c(payload, crc32c(prefix, self._crc))


def read_header(path: Path) -> FileHeader:
    """Return the header of a file. Raises BackupDamaged, also for a file that does not exist."""
    try:
        with path.open("rb") as file:
            content = file.read(HEADER_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) < HEADER_BYTES:
        raise BackupDamaged(f"{path} is damaged: it ends within its header")
    magic, version, length, crc = HEADER.unpack_from(content)
    if magic != MAGIC:
        raise BackupDamaged(f"{path} is damaged, or no file of a backup: it begins with {magic!r}")
    body, padding = content[HEADER.size : HEADER.size + length], content[HEADER.size + length :]
    if len(body) != length or crc32c(body) != crc or any(padding):
        raise BackupDamaged(f"{path} is damaged: its header does not match its checksum")
    if version != FORMAT_VERSION:
        raise BackupDamaged(f"{path} has format version {version}; this groupd reads {FORMAT_VERSION}")
    try:
        return FileHeader(*msgpack.unpackb(body, use_list=False))
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise BackupDamaged(f"{path} is damaged: its header cannot be read: {error}") from None


def read_records(path: Path, header: FileHeader) -> Iterator[PackedRecord]:
    """Yield the records of a file whose header is `header`. Each frame is checked before its first record is
    given, and the whole file when the last one was. Raises BackupDamaged."""
    offset, crc, records = HEADER_BYTES, 0, 0
    try:
        with path.open("rb") as file:
            file.seek(HEADER_BYTES)
            while prefix := file.read(FRAME.size):
                length, payload_crc = FRAME.unpack(prefix.ljust(FRAME.size, b"\0"))
                payload = file.read(length) if length <= FRAME_BYTES_MAX else b""
                if len(prefix) < FRAME.size or len(payload) != length or crc32c(payload) != payload_crc:
                    raise BackupDamaged(f"{path} is damaged: the frame at byte {offset} is not whole")
                offset += FRAME.size + length
                crc = crc32c(payload, crc32c(prefix, crc))
                for record in _unpacked(path, payload):
                    records += 1
                    yield record
    except OSError as error:
        raise _unreadable(path, error) from None
    if (records, offset - HEADER_BYTES, crc) != (header.records, header.frames_bytes, header.frames_crc):
        raise BackupDamaged(
            f"{path} is damaged: {records} records in {offset - HEADER_BYTES} bytes were read, "
            f"its header tells of {header.records} in {header.frames_bytes} with another checksum"
        )


def _encoded(header: FileHeader) -> bytes:
    body: bytes = msgpack.packb(tuple(header))
    encoded = HEADER.pack(MAGIC, FORMAT_VERSION, len(body), crc32c(body)) + body
    assert len(encoded) <= HEADER_BYTES, header
    return encoded.ljust(HEADER_BYTES, b"\0")


def _unpacked(path: Path, payload: bytes) -> Iterator[PackedRecord]:
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=len(payload))
    unpacker.feed(payload)
    try:
        for record in unpacker:
            key, value = record
            if not isinstance(key, tuple) or len(key) < 2 or not isinstance(value, tuple):
                raise ValueError(f"{record!r} is no record")
            yield key, value
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise BackupDamaged(f"{path} is damaged: {error}") from None
    if unpacker.tell() != len(payload):
        raise BackupDamaged(f"{path} is damaged: a frame ends within a record")


def _unreadable(path: Path, error: OSError) -> BackupDamaged:
    return BackupDamaged(f"{path} cannot be read: {error.strerror or error}")
