"""Reserve offsets so that none is given out twice, although a broker's logs die with it.

Before a log gives out offsets it reserves a block of them here, in a small file. After a restart a
partition's log starts where its last reservation ended: above every offset that a consumer may have seen
or committed. A consumer that stands lower gets OFFSET_OUT_OF_RANGE and resets, as after any loss of data.
A broker that stops cleanly gives back what is left of its blocks (`settle`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from crc32c import crc32c

BLOCK = 10_000
"""How many offsets are reserved at a time: a restart skips at most so many."""
FORMAT = b"groupd floor 1\n"
_ENTRY = struct.Struct(">16siq")
_CRC = struct.Struct(">I")
_ENTRY_BYTES = _ENTRY.size + _CRC.size
_REWRITE_ENTRIES_MIN = 4_096


class FloorStore(Protocol):
    """The store in which the reservations are kept."""

    def load(self) -> bytes:
        """Return what was stored, b"" at first."""

    def append(self, data: bytes) -> None: ...

    def replace(self, data: bytes) -> None:
        """Replace what is stored. Afterwards either the old or the new content is there, whatever happens."""


class FloorFile:
    """A FloorStore that is a file. It survives the broker's process; the machine's cache is not flushed,
    since a machine that dies takes the log of every process on it along."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory) / "offsets-floor"
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def load(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""

    def append(self, data: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(data)

    def replace(self, data: bytes) -> None:
        written = self._path.with_suffix(".new")
        with written.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(self._path)


class OffsetsFloor:
    """The reservations of one broker's logs. Raises ValueError at a store of an unknown format."""

    def __init__(self, store: FloorStore) -> None:
        self._store = store
        self._ends: dict[tuple[bytes, int], int] = _read(store.load())
        self._rewrite()

    def start_offset(self, topic_id: bytes, partition: int) -> int:
        """Return where a new log of the partition starts; 0 if there never was one here."""
        return self._ends.get((topic_id, partition), 0)

    def reserve(self, topic_id: bytes, partition: int, end_offset: int) -> None:
        """Make sure that no later log gives out offsets below `end_offset` again. Raises OSError."""
        key = (topic_id, partition)
        if end_offset <= self._ends.get(key, 0):
            return
        self._raise_to(key, (end_offset // BLOCK + 1) * BLOCK)

    def begin_at(self, topic_id: bytes, partition: int, offset: int) -> None:
        """Have a log that does not exist yet start no lower than `offset`. Raises OSError."""
        if offset > self._ends.get((topic_id, partition), 0):
            self._raise_to((topic_id, partition), offset)

    def _raise_to(self, key: tuple[bytes, int], end: int) -> None:
        if self._entries_stored > 2 * len(self._ends) + _REWRITE_ENTRIES_MIN:
            self._rewrite()
        self._store.append(_entry(key, end))
        self._entries_stored += 1
        self._ends[key] = end

    def give_back(self, end_offsets: Mapping[tuple[bytes, int], int]) -> None:
        """Give back what the logs did not use of their reservations: they append nothing from now on.

        So a clean restart skips no offsets, and a consumer at the end of a log stays there, without lag.
        Raises OSError, after which the reservations hold as they were.
        """
        known = self._ends
        self._ends = known | {key: end for key, end in end_offsets.items() if key in known}
        try:
            self._rewrite()
        except OSError:
            self._ends = known
            raise

    def forget_topics(self, but: Collection[bytes]) -> None:
        """Drop the reservations of topics whose ids are not in `but`; topic ids are never used again."""
        gone = [key for key in self._ends if key[0] not in but]
        for key in gone:
            del self._ends[key]

    def _rewrite(self) -> None:
        self._store.replace(FORMAT + b"".join(_entry(key, end) for key, end in self._ends.items()))
        self._entries_stored = len(self._ends)


def _entry(key: tuple[bytes, int], end_offset: int) -> bytes:
    body = _ENTRY.pack(*key, end_offset)
    return body + _CRC.pack(crc32c(body))


def _read(stored: bytes) -> dict[tuple[bytes, int], int]:
    """Read the reservations, of which later entries win. An entry that a crash cut short is the last, and no
    offset was given out for it."""
    ends: dict[tuple[bytes, int], int] = {}
    if stored and not stored.startswith(FORMAT):
        raise ValueError("the offsets floor is of a format that this release does not read")
    for at in range(len(FORMAT), len(stored) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        body = stored[at : at + _ENTRY.size]
        if _CRC.unpack_from(stored, at + _ENTRY.size)[0] == crc32c(body):
            topic_id, partition, end_offset = _ENTRY.unpack(body)
            ends[topic_id, partition] = end_offset
    return ends
