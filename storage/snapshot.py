"""The newest snapshot of a replica's state, as one file that is replaced as a whole.

    file = magic (4) | format version (2) | body length (4) | crc32c of body (4) | body | data
    body = [tier id, replica id, index, term, size of data, crc32c of data] (msgpack)

The data is opaque. A save writes a new file, syncs it, renames it over the old one and syncs the
directory: at any moment one whole snapshot is there. Chunks for peers are cut elsewhere.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgpack
from crc32c import crc32c

from storage.disk import Executor, Files
from storage.errors import SnapshotDamaged, WrongDirectory
from storage.journal import Identity

FORMAT_VERSION: Final = 1
MAGIC: Final = b"GRPS"
HEADER: Final = struct.Struct("<4sHII")
NAME: Final = "snapshot"
NEW_NAME: Final = "snapshot.new"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after the entry at `index`, which was of `term`."""

    index: int
    term: int
    data: bytes = field(repr=False)
    crc: int
    """crc32c of `data`."""

    @classmethod
    def of(cls, index: int, term: int, data: bytes) -> Snapshot:
        return cls(index, term, data, crc32c(data))


class SnapshotStore:
    """Owned by one loop. A save in the background runs in `executor` and ends with `notify`, called in the
    executor's thread; the owner then calls `collect`. The journal's directory lock covers this directory."""

    def __init__(
        self,
        disk: Files,
        directory: str,
        identity: Identity,
        *,
        executor: Executor | None = None,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        """`executor` None: `save_later` saves before it returns."""
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
        """The newest snapshot, checked; None if there is none. Raises SnapshotDamaged, WrongDirectory and
        OSError."""
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
        """Start a save; `collect` says when it has ended. One at a time."""
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
        """True once, when a snapshot saved in the background has become the newest. A failed save is told
        in `failed` and changes nothing."""
        if not self._outcome:
            return False
        error = self._outcome.pop()
        snapshot, self._saving = self._saving, None
        assert snapshot is not None, "an outcome belongs to a save"
        if error is not None:
            self.failed = f"snapshot {self._directory}: save failed: {error}"
            return False
        self.failed = None
        self.index, self.size = snapshot.index, len(snapshot.data)
        return True

    def close(self) -> None:
        """Wait for a save under way."""
        if self._executor is not None:
            self._executor.close()

    def _ended(self, error: BaseException | None) -> None:
        self._outcome.append(error)
        self._notify()

    def _write(self, snapshot: Snapshot) -> None:
        body: bytes = msgpack.packb(
            (
                self._identity.tier_id,
                self._identity.replica_id,
                snapshot.index,
                snapshot.term,
                len(snapshot.data),
                snapshot.crc,
            )
        )
        new = os.path.join(self._directory, NEW_NAME)
        if NEW_NAME in self._disk.list(self._directory):
            self._disk.remove(new)
        file = self._disk.open_append(new)
        try:
            file.append(HEADER.pack(MAGIC, FORMAT_VERSION, len(body), crc32c(body)) + body)
            file.append(snapshot.data)
            file.sync()
        finally:
            file.close()
        self._disk.rename(new, os.path.join(self._directory, NAME))
        self._disk.sync_directory(self._directory)

    def _decode(self, path: str, content: bytes) -> Snapshot:
        if len(content) < HEADER.size:
            raise SnapshotDamaged(f"{path} has no whole header")
        magic, version, length, body_crc = HEADER.unpack_from(content)
        body = content[HEADER.size : HEADER.size + length]
        if magic != MAGIC or len(body) != length or crc32c(body) != body_crc:
            raise SnapshotDamaged(f"{path} has a damaged header")
        if version != FORMAT_VERSION:
            raise WrongDirectory(f"{path}: format version {version}, this release reads {FORMAT_VERSION}")
        tier_id, replica_id, index, term, size, crc = msgpack.unpackb(body, use_list=False)
        if Identity(tier_id=tier_id, replica_id=replica_id) != self._identity:
            raise WrongDirectory(
                f"{path} belongs to replica {replica_id!r} of tier {tier_id!r}, "
                f"not to replica {self._identity.replica_id!r} of tier {self._identity.tier_id!r}"
            )
        data = content[HEADER.size + length :]
        if len(data) != size or crc32c(data) != crc:
            raise SnapshotDamaged(f"{path}: data of {len(data)} bytes does not match its size or checksum")
        return Snapshot(index, term, data, crc)
