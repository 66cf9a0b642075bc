"""The newest snapshot of a replica's state, as one file that is replaced as a whole.

    file = magic (4) | format version (2) | body length (4) | crc32c (4) | body | data
    body = [tier id, replica id, index, term, size of data, crc32c of data, members] (msgpack)

The header's checksum covers what is before it and the body. Format version 1 (read, never written) has no
members and checksums only the body.

The data is opaque. A save writes a new file, syncs it, renames it over the old one and syncs the
directory: at any moment one whole snapshot is there. Chunks for peers are cut elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgpack
from crc32c import crc32c

from storage.raft.disk import Executor, Files
from storage.raft.errors import JournalFailed, SnapshotDamaged, WrongDirectory, explain
from storage.raft.journal import WAY_OUT, Identity
from storage.raft.members import Members, check

FORMAT_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, 2)
MAGIC: Final = b"GRPS"
HEADER: Final = struct.Struct("<4sHII")
HEADER_FIXED: Final = struct.Struct("<4sHI")
"""The part of HEADER that the checksum covers, with the body, from version 2 on."""
NAME: Final = "snapshot"
NEW_NAME: Final = "snapshot.new"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after the entry at `index`, which was of `term`."""

    index: int
    term: int
    data: bytes = field(repr=False)
    crc: int
    """The crc32c of `data`."""
    members: Members | None = None
    """The membership after the entry at `index`; None: unknown, the file was of format version 1."""

    @classmethod
    def of(cls, index: int, term: int, data: bytes, members: Members | None = None) -> Snapshot:
        return cls(index, term, data, crc32c(data), members)


class SnapshotStore:
    """The file of the newest snapshot, owned by one loop. A save in the background runs in `executor` and
    ends with `notify`, called in the executor's thread; the owner then calls `collect`. The journal's
    directory lock covers this directory."""

    def __init__(
        self,
        disk: Files,
        directory: str,
        identity: Identity,
        *,
        executor: Executor | None = None,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the store. Without an `executor`, `save_later` saves before it returns."""
        self.index = 0
        self.size = 0
        self.failed: str | None = None
        self._disk = disk
        self._directory = directory
        self._identity = identity
        self._executor = executor
        self._notify = notify
        self._saving: Snapshot | None = None
        self._outcome: list[BaseException | None] = []
        disk.make_directory(directory)

    @property
    def saving(self) -> bool:
        return self._saving is not None

    def load(self) -> Snapshot | None:
        """Return the newest snapshot, checked; None if there is none. Raises SnapshotDamaged, WrongDirectory
        and OSError."""
        if NAME not in self._disk.list(self._directory):
            return None
        path = os.path.join(self._directory, NAME)
        snapshot = self._decode(path, self._disk.read(path))
        self.index, self.size = snapshot.index, len(snapshot.data)
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Make `snapshot` the newest, durably, before returning. Raises OSError; the old one then stays."""
        assert not self.saving, "two saves at once could leave the older one"
        self._write(snapshot)
        self.index, self.size = snapshot.index, len(snapshot.data)

    def save_later(self, snapshot: Snapshot) -> None:
        """Start a save; `collect` says when it has ended. Only one may be under way."""
        assert not self.saving, "one save at a time"
        self._saving = snapshot
        if self._executor is not None:
            self._executor.submit(lambda: self._write(snapshot), self._ended)
            return
        try:
            self._write(snapshot)
        except OSError as error:
            self._outcome.append(error)
        else:
            self._outcome.append(None)

    def collect(self) -> bool:
        """Return True once, when a snapshot saved in the background has become the newest. A failed save is
        told in `failed` and changes nothing. Raises JournalFailed if the directory is gone, and with it the
        snapshot that the shortened log builds on."""
        if not self._outcome:
            return False
        error = self._outcome.pop()
        snapshot, self._saving = self._saving, None
        assert snapshot is not None, "an outcome belongs to a save"
        if error is not None:
            self.failed = f"snapshot {self._directory}: save failed: {explain(error)}"
            if isinstance(error, FileNotFoundError):
                raise JournalFailed(self.failed)
            return False
        self.failed = None
        self.index, self.size = snapshot.index, len(snapshot.data)
        return True

    def close(self) -> None:
        """Wait for a save that is under way, and end the executor."""
        if self._executor is not None:
            self._executor.close()

    def _ended(self, error: BaseException | None, _took_s: float) -> None:
        self._outcome.append(error)
        self._notify()

    def _write(self, snapshot: Snapshot) -> None:
        new = os.path.join(self._directory, NEW_NAME)
        if NEW_NAME in self._disk.list(self._directory):
            self._disk.remove(new)
        try:
            self._write_new(new, snapshot)
            self._disk.rename(new, os.path.join(self._directory, NAME))
        except OSError:
            # A full disk needs the room more than half a snapshot does.
            with contextlib.suppress(OSError):
                self._disk.remove(new)
            raise
        self._disk.sync_directory(self._directory)

    def _write_new(self, path: str, snapshot: Snapshot) -> None:
        file = self._disk.open_append(path)
        try:
            file.append(encode_header(self._identity, snapshot))
            file.append(snapshot.data)
            file.sync()
        finally:
            file.close()

    def _decode(self, path: str, content: bytes) -> Snapshot:
        identity, snapshot = decode(path, content)
        if identity != self._identity:
            raise WrongDirectory(
                f"{path} belongs to replica {identity.replica_id!r} of tier {identity.tier_id!r}, "
                f"not to replica {self._identity.replica_id!r} of tier {self._identity.tier_id!r}"
            )
        return snapshot


def encode_header(identity: Identity, snapshot: Snapshot) -> bytes:
    """Return the bytes that precede the data in a file of this snapshot."""
    body: bytes = msgpack.packb(
        (
            identity.tier_id,
            identity.replica_id,
            snapshot.index,
            snapshot.term,
            len(snapshot.data),
            snapshot.crc,
            snapshot.members,
        )
    )
    crc = _header_crc(MAGIC, FORMAT_VERSION, body)
    return HEADER.pack(MAGIC, FORMAT_VERSION, len(body), crc) + body


def decode(path: str, content: bytes) -> tuple[Identity, Snapshot]:
    """Return the identity and the snapshot that a file holds. Raises SnapshotDamaged, and WrongDirectory for
    a format version that this release cannot read."""
    if len(content) < HEADER.size:
        raise SnapshotDamaged(f"{path} has no whole header in its {len(content)} bytes: {WAY_OUT}")
    magic, version, length, crc = HEADER.unpack_from(content)
    if magic == MAGIC and version not in READABLE_VERSIONS:
        raise WrongDirectory(f"{path}: format version {version}, this release reads {READABLE_VERSIONS}")
    body = content[HEADER.size : HEADER.size + length]
    if magic != MAGIC or len(body) != length or _header_crc(magic, version, body) != crc:
        raise SnapshotDamaged(f"{path} has a damaged header: {WAY_OUT}")
    tier_id, replica_id, index, term, size, data_crc, *rest = msgpack.unpackb(body, use_list=False)
    members = None if not rest or rest[0] is None else check(rest[0])
    start = HEADER.size + length
    data = content[start:]
    if len(data) != size or crc32c(data) != data_crc:
        raise SnapshotDamaged(
            f"{path} is damaged behind byte {start}: its {len(data)} bytes of data do not match the "
            f"size {size} or the checksum: {WAY_OUT}"
        )
    return Identity(tier_id=tier_id, replica_id=replica_id), Snapshot(index, term, data, data_crc, members)


def _header_crc(magic: bytes, version: int, body: bytes) -> int:
    fixed = HEADER_FIXED.pack(magic, version, len(body)) if version > 1 else b""
    crc: int = crc32c(body, crc32c(fixed))
    return crc
