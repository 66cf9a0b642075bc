"""Mistakes of the journal and the snapshot store: what a power loss takes, and what damage means."""

from __future__ import annotations

from typing import Any

import msgpack

from storage.raft.disk import AppendFile
from storage.raft.errors import SnapshotDamaged
from storage.raft.journal import SEGMENT_SUFFIX, Journal
from storage.raft.members import check
from storage.raft.records import Torn, decode_header, scan
from storage.raft.recovery import MARK_NAME, Segment
from storage.raft.snapshot import HEADER, Snapshot, SnapshotStore


class DurableWhenWritten(Journal):
    """An entry is durable when it is synced, not when it is written."""

    def _write(self) -> None:
        super()._write()
        if self.failed is None:
            self.durable_index = max(self.durable_index, self._written_index)


class SyncCoversWhatCameLater(Journal):
    """A sync makes durable what was written before it began."""

    def collect(self) -> None:
        if self._sync_outcome and self._syncing_index is not None:
            self._syncing_index = self._written_index
        super().collect()


class QuickDisksAreNotSynced(Journal):
    """A disk that has long been quick is synced like any other, before what was written counts as durable."""

    def flush(self) -> None:
        if self._speed.is_light:
            self._write()
            self.durable_index, self._dirty = max(self.durable_index, self._written_index), False
        super().flush()


class TakesWhateverComesNext(Journal):
    """Entries are taken at once only behind an entry that is the leader's, of the same index and term."""

    def takes_at_once(self, previous_index: int, previous_term: int) -> bool:
        return super().takes_at_once(previous_index, self.last_term)


class TruncationIsNotWritten(Journal):
    """What is taken back is taken back on the disk too."""

    def truncate_after(self, index: int) -> None:
        super().truncate_after(index)
        self.unwritten.pop()


class VotesNotSynced(Journal):
    """Term and vote are synced before anybody is told."""

    def set_hard_state(self, term: int, vote: str | None) -> None:
        self._executor, executor = None, self._executor
        durable = self.durable_index
        super().set_hard_state(term, vote)
        self._executor, self.durable_index, self._dirty = executor, durable, True


class ResetNotSynced(Journal):
    """Emptying the log for an installed snapshot is synced before anything builds on it."""

    def reset(self, index: int, term: int) -> None:
        inline = self._sync_inline
        self._sync_inline = lambda: None
        super().reset(index, term)
        self._sync_inline = inline
        self._dirty = True


class RotatesWithoutSync(Journal):
    """A segment is synced before the next one begins: a torn tail may only be in the newest."""

    def _rotate(self) -> None:
        inline = self._sync_inline
        self._sync_inline = lambda: None
        super()._rotate()
        self._sync_inline = inline


class RetriesAFailedSync(Journal):
    """After a failed sync the journal has failed: the pages may be gone, and a second sync proves nothing."""

    def _fail(self, what: str, error: BaseException) -> None:
        self._dirty = True


class KeepsATornTail(Journal):
    """A torn tail is cut before anything is written behind it."""

    def __init__(self, disk: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(_Careless(disk, truncates=False), *arguments, **named)


class CutsDamageAnywhere(Journal):
    """Damage with whole records behind it stops the start; cutting it would lose what was acknowledged."""

    def __init__(self, disk: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(_Healing(disk), *arguments, **named)


class TrustsWhatItFinds(Journal):
    """What is found at start survived a process; it is made durable before it counts so."""

    def _write_again(self, segment: Segment, start: int) -> None:
        pass


class SyncsAgainWithoutWriting(Journal):
    """After a failed sync pages may be clean and lost: only what is written again is synced again."""

    def _write_again(self, segment: Segment, start: int) -> None:
        super()._write_again(segment, segment.end)


class SharesOneDescriptor(Journal):
    """Each descriptor is told of a failed sync once: syncs that run side by side need one each."""

    def _open_twice(self, path: str) -> tuple[AppendFile, AppendFile]:
        file, other = super()._open_twice(path)
        other.close()
        return file, file


class MarksWhatIsOnlyWritten(Journal):
    """The mark says how far the journal is synced, not how far it is written."""

    def _write(self) -> None:
        super()._write()
        self._try_mark(self._end())


class RenamesBeforeSyncing(SnapshotStore):
    """A snapshot takes the old one's name when all of it is on the disk."""

    def __init__(self, disk: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(_Careless(disk, syncs=False), *arguments, **named)


class DirectoryNotSynced(SnapshotStore):
    """The new snapshot's name is synced before the log it replaces goes."""

    def __init__(self, disk: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(_Careless(disk, syncs_directories=False), *arguments, **named)


class SaysSavedTooEarly(SnapshotStore):
    """The log is shortened when the snapshot that replaces it is durable."""

    _announced: Snapshot | None = None

    def collect(self) -> bool:
        snapshot = self._saving
        if super().collect():
            return False
        if snapshot is None or snapshot is self._announced:
            return False
        self._announced = snapshot
        self.index, self.size = snapshot.index, len(snapshot.data)
        return True


class TakesDamagedSnapshots(SnapshotStore):
    """A snapshot is used if it matches its checksum."""

    def _decode(self, path: str, content: bytes) -> Snapshot:
        try:
            return super()._decode(path, content)
        except SnapshotDamaged as damage:
            if "header" in str(damage):
                raise
            start = HEADER.size + HEADER.unpack_from(content)[2]
            _, _, index, term, _, _, members = msgpack.unpackb(content[HEADER.size : start], use_list=False)
            return Snapshot.of(index, term, content[start:], check(members))


class _Careless:
    """A disk on which something that should be done is not."""

    def __init__(
        self, disk: Any, *, truncates: bool = True, syncs: bool = True, syncs_directories: bool = True
    ) -> None:
        self._disk = disk
        self._truncates = truncates
        self._syncs = syncs
        self._syncs_directories = syncs_directories

    def truncate(self, path: str, size: int) -> None:
        if self._truncates:
            self._disk.truncate(path, size)

    def open_append(self, path: str) -> Any:
        file = self._disk.open_append(path)
        return file if self._syncs else _NeverSynced(file)

    def sync_directory(self, directory: str) -> None:
        if self._syncs_directories:
            self._disk.sync_directory(directory)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


class _NeverSynced:
    def __init__(self, file: Any) -> None:
        self._file = file

    def sync(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Healing:
    """A disk that cuts every journal file where it stops making sense, and knows no mark."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk

    def list(self, directory: str) -> list[str]:
        return [name for name in self._disk.list(directory) if name != MARK_NAME]

    def read(self, path: str) -> bytes:
        content: bytes = self._disk.read(path)
        frame = decode_header(content) if path.endswith(SEGMENT_SUFFIX) else None
        if frame is not None:
            for record in scan(content, frame.start, frame.seed, frame.version):
                if isinstance(record, Torn):
                    self._disk.truncate(path, record.offset)
                    return content[: record.offset]
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)
