"""The Raft log and hard state (term, vote) on disk: append-only segments, synced in groups.

The law of this file: `durable_index` never counts an entry that a power loss could take back. Entries
above the last snapshot are also held in memory. After a failed write or sync the journal is `failed`
for the rest of its life: the kernel may have dropped the dirty pages, so a second sync that succeeds
would prove nothing. What the entries mean, and when to take a snapshot, is decided elsewhere.

At start a torn tail (nothing whole follows it, nobody can have been told of it) is cut; whole records
behind damaged bytes, or damage in an older segment, stop the start with JournalDamaged and cut nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from storage.disk import AppendFile, Executor, Files
from storage.errors import JournalDamaged, JournalFailed, WrongDirectory
from storage.records import (
    ENTRY,
    RECORD,
    RECORD_MAGIC,
    Entry,
    HardState,
    Record,
    Reset,
    SegmentHeader,
    Torn,
    Truncate,
    decode_header,
    encode_entry,
    encode_header,
    encode_record,
    scan,
    seed_of,
)

ENTRY_OVERHEAD_BYTES = RECORD.size + ENTRY.size
SEGMENT_SUFFIX = ".journal"
WAY_OUT = (
    "nothing was changed. Restore the directory; or, if the other replicas are whole, move it away and start "
    "once with --set accept.loss=true"
)
SEGMENT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose directory it is. A replica that lost its disk comes back under a new `replica_id`: under the
    old one it could vote twice in a term."""

    tier_id: str
    replica_id: str


@dataclass(slots=True)
class _Segment:
    sequence: int
    path: str
    last_index: int
    """The highest index ever written to it."""


class Journal:
    """Not thread-safe: one loop owns it; only the sync itself runs in `executor`.

    `notify` is called in the executor's thread when a sync has ended; the owner then calls `collect`.
    With `sync=False` entries count as durable once written: safe against the end of the process, not
    against the end of the machine."""

    def __init__(
        self,
        disk: Files,
        directory: str,
        identity: Identity,
        *,
        executor: Executor | None,
        notify: Callable[[], None],
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """`executor` None means sync=False. Raises DirectoryInUse, WrongDirectory, JournalDamaged and
        OSError."""
        self.base_index = 0
        self.base_term = 0
        self.term = 0
        self.vote: str | None = None
        self.durable_index = 0
        self.entry_bytes = 0
        self.failed: str | None = None
        self._entries: list[Entry] = []
        self._disk = disk
        self._directory = directory
        self._identity = identity
        self._executor = executor
        self._notify = notify
        self._segment_bytes = segment_bytes
        self._buffer: list[bytes] = []
        self._file_bytes = 0
        self._written_index = 0
        self._syncing_index: int | None = None
        self._sync_outcome: list[BaseException | None] = []
        self._dirty = False
        self._retired: list[AppendFile] = []
        self._segments: list[_Segment] = []
        disk.make_directory(directory)
        self._lock = disk.lock(directory)
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise

    # -- what the log holds -------------------------------------------------------------------------

    @property
    def last_index(self) -> int:
        return self.base_index + len(self._entries)

    @property
    def last_term(self) -> int:
        return self._entries[-1][2] if self._entries else self.base_term

    @property
    def unwritten(self) -> bool:
        """Something waits for `flush`."""
        return bool(self._buffer)

    def term_at(self, index: int) -> int | None:
        """The term of the entry at `index`; None if the log does not hold it (compacted or not yet there)."""
        position = index - self.base_index
        if position == 0:
            return self.base_term
        if 0 < position <= len(self._entries):
            return self._entries[position - 1][2]
        return None

    def entry(self, index: int) -> Entry:
        return self._entries[index - self.base_index - 1]

    def entries_from(self, index: int, bytes_max: int) -> list[Entry]:
        """Entries from `index` on, at least one if there is one, up to `bytes_max` of commands."""
        start = index - self.base_index - 1
        size = 0
        end = start
        for end in range(start, len(self._entries)):
            size += len(self._entries[end][0])
            if size > bytes_max and end > start:
                return self._entries[start:end]
        return self._entries[start : end + 1]

    def tail_within(self, bytes_max: int) -> int:
        """The highest index below which everything can go when `bytes_max` of the newest entries stay."""
        size = 0
        for entry in reversed(self._entries):
            size += len(entry[0]) + ENTRY_OVERHEAD_BYTES
            if size > bytes_max:
                return entry[1]
        return self.base_index

    # -- changes ------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """Add the entry for `last_index + 1`. It is written by the next `flush`."""
        assert entry[1] == self.last_index + 1, "the log has no holes"
        self._entries.append(entry)
        self._buffer += encode_entry(entry, self._seed)
        self.entry_bytes += len(entry[0]) + ENTRY_OVERHEAD_BYTES

    def truncate_after(self, index: int) -> None:
        """Take back every entry above `index`."""
        term = self.term_at(index)
        assert term is not None, "what is compacted is committed and never taken back"
        keep = index - self.base_index
        self.entry_bytes -= sum(len(entry[0]) + ENTRY_OVERHEAD_BYTES for entry in self._entries[keep:])
        del self._entries[keep:]
        self._retract(index)
        self._buffer.append(encode_record(Truncate(index, term), self._seed))

    def reset(self, index: int, term: int) -> None:
        """Empty the log; it now stands at `index`, the end of an installed snapshot. Old segments go."""
        self._clear(index, term)
        self._retract(index)
        self._buffer.append(encode_record(Reset(index, term), self._seed))
        self._write()
        # The reset must not be lost while the snapshot stays: sync it before anything builds on it.
        self._sync_inline()
        self.durable_index = index
        self.compact(index)

    def compact(self, index: int) -> None:
        """Forget entries up to `index` (a durable snapshot covers them) and remove segments they filled."""
        term = self.term_at(index)
        assert term is not None, "only held entries can be compacted"
        drop = index - self.base_index
        self.entry_bytes -= sum(len(entry[0]) + ENTRY_OVERHEAD_BYTES for entry in self._entries[:drop])
        del self._entries[:drop]
        self.base_index, self.base_term = index, term
        self._write()
        self._rotate()
        self._remove_segments()

    def set_hard_state(self, term: int, vote: str | None) -> None:
        """Make term and vote durable before returning: the caller is about to send what depends on them.
        Raises JournalFailed."""
        if (term, vote) == (self.term, self.vote):
            return
        assert term >= self.term, "terms never run backwards"
        self.term, self.vote = term, vote
        self._buffer.append(encode_record(HardState(term, vote), self._seed))
        self._write()
        self._sync_inline()
        if self.failed is not None:
            raise JournalFailed(self.failed)

    def flush(self) -> None:
        """Write what was appended; start a sync unless one is running. Never blocks on the disk's cache."""
        if self._buffer:
            self._write()
            if self._file_bytes >= self._segment_bytes:
                self._rotate()
        self._start_sync()

    def collect(self) -> None:
        """Take in the end of a sync, if one ended, and start the next if more was written meanwhile."""
        if not self._sync_outcome:
            return
        error = self._sync_outcome.pop()
        index, self._syncing_index = self._syncing_index, None
        for file in self._retired:
            file.close()
        self._retired.clear()
        if error is not None:
            self._fail("sync", error)
        elif index is not None and self.failed is None:
            self.durable_index = max(self.durable_index, index)
        self._start_sync()

    def close(self) -> None:
        """Write and sync what is left, stop the executor, give the directory back."""
        self._write()
        if self._executor is not None:
            if self._dirty:
                self._sync_inline()
            self._executor.close()
        for file in (*self._retired, self._file):
            file.close()
        self._retired.clear()
        self._lock.release()

    # -- writing ------------------------------------------------------------------------------------

    def _retract(self, index: int) -> None:
        self.durable_index = min(self.durable_index, index)
        self._written_index = min(self._written_index, index)
        if self._syncing_index is not None:
            # The running sync covers the entries that were there, not those that will take their place.
            self._syncing_index = min(self._syncing_index, index)

    def _write(self) -> None:
        if not self._buffer:
            return
        content = b"".join(self._buffer)
        self._buffer.clear()
        if self.failed is not None:
            return
        try:
            self._file.append(content)
        except OSError as error:
            self._fail("write", error)
            return
        self._file_bytes += len(content)
        self._written_index = self.last_index
        self._segments[-1].last_index = max(self._segments[-1].last_index, self.last_index)
        self._dirty = True
        if self._executor is None:
            self.durable_index = self._written_index
            self._dirty = False

    def _start_sync(self) -> None:
        if not self._dirty or self._executor is None or self._syncing_index is not None:
            return
        if self.failed is not None:
            return
        self._dirty = False
        self._syncing_index = self._written_index
        self._executor.submit(self._file.sync, self._sync_ended)

    def _sync_ended(self, error: BaseException | None) -> None:
        self._sync_outcome.append(error)
        self._notify()

    def _sync_inline(self) -> None:
        if self._executor is None or self.failed is not None:
            return
        try:
            self._file.sync()
        except OSError as error:
            self._fail("sync", error)
            return
        self._dirty = False
        self.durable_index = self._written_index

    def _rotate(self) -> None:
        """Begin a new segment. The old one is synced first: a torn tail may only be in the newest."""
        self._sync_inline()
        if self.failed is not None:
            return
        try:
            old = self._file
            self._create_segment(self._segments[-1].sequence + 1)
        except OSError as error:
            self._fail("new segment", error)
            return
        if self._syncing_index is None:
            old.close()
        else:
            self._retired.append(old)  # the executor may be about to sync this very descriptor

    def _remove_segments(self) -> None:
        try:
            while len(self._segments) > 1 and self._segments[0].last_index <= self.base_index:
                self._disk.remove(self._segments[0].path)
                del self._segments[0]
        except OSError as error:
            self._fail("remove segment", error)

    def _create_segment(self, sequence: int) -> None:
        path = os.path.join(self._directory, f"{sequence:012d}{SEGMENT_SUFFIX}")
        header = encode_header(
            SegmentHeader(
                self._identity.tier_id,
                self._identity.replica_id,
                sequence,
                self.last_index,
                self.last_term,
                self.term,
                self.vote,
            )
        )
        file = self._disk.open_append(path)
        try:
            file.append(header)
            if self._executor is not None:
                file.sync()
                self._disk.sync_directory(self._directory)
        except OSError:
            file.close()
            raise
        self._file = file
        self._seed = seed_of(header)
        self._file_bytes = len(header)
        self._segments.append(_Segment(sequence, path, self.last_index))

    def _fail(self, what: str, error: BaseException) -> None:
        if self.failed is None:
            self.failed = f"journal {self._directory}: {what} failed: {error}"

    # -- start --------------------------------------------------------------------------------------

    def _open(self) -> None:
        names = [name for name in self._disk.list(self._directory) if name.endswith(SEGMENT_SUFFIX)]
        for name in names:
            self._load(os.path.join(self._directory, name), last=name == names[-1])
        if self._segments:
            self._file = self._disk.open_append(self._segments[-1].path)
        else:
            self._create_segment(1)
        # What was read survived the process; make sure that it also survives the machine.
        self._written_index = self.last_index
        if self._executor is None:
            self.durable_index = self.last_index
        else:
            self._file.sync()
            self.durable_index = self.last_index

    def _load(self, path: str, *, last: bool) -> None:
        content = self._disk.read(path)
        try:
            decoded = decode_header(content)
        except ValueError as error:
            raise WrongDirectory(f"{path}: {error}") from None
        if decoded is None:
            self._drop_headless(path, content, last)
            return
        header, start = decoded
        self._check_header(path, header)
        self._seed = seed_of(content)
        if not self._segments:
            self.base_index, self.base_term = header.previous_index, header.previous_term
            self.term, self.vote = header.term, header.vote
        segment = _Segment(header.sequence, path, self.last_index)
        size = len(content)
        for record in scan(content, start, self._seed):
            if isinstance(record, Torn):
                if record.whole_records_follow or not last:
                    raise JournalDamaged(
                        f"{path} is damaged at byte {record.offset} of {size} and is not at its end there: "
                        f"{WAY_OUT}"
                    )
                self._disk.truncate(path, record.offset)
                size = record.offset
                break
            self._replay(path, record)
            segment.last_index = max(segment.last_index, self.last_index)
        self._segments.append(segment)
        self._file_bytes = size

    def _drop_headless(self, path: str, content: bytes, last: bool) -> None:
        """A header that is not whole: a crash while the segment was begun, if it is the newest, holds no
        record's mark, and either the one before is there or it was the very first."""
        first = os.path.basename(path) == f"{1:012d}{SEGMENT_SUFFIX}"
        if not last or not (self._segments or first) or RECORD_MAGIC in content:
            raise JournalDamaged(f"{path} has no readable header: {WAY_OUT}")
        self._disk.remove(path)

    def _check_header(self, path: str, header: SegmentHeader) -> None:
        theirs = Identity(tier_id=header.tier_id, replica_id=header.replica_id)
        if theirs != self._identity:
            raise WrongDirectory(
                f"{self._directory} belongs to replica {theirs.replica_id!r} of tier {theirs.tier_id!r}, "
                f"not to replica {self._identity.replica_id!r} of tier {self._identity.tier_id!r}"
            )
        if self._segments and header.sequence != self._segments[-1].sequence + 1:
            raise JournalDamaged(
                f"{path} has sequence {header.sequence}, expected {self._segments[-1].sequence + 1}: "
                "a segment is missing"
            )

    def _replay(self, path: str, record: Record) -> None:
        match record:
            case HardState(term, vote):
                self.term, self.vote = term, vote
            case Reset(index, term):
                self._clear(index, term)
            case Truncate(index, term):
                if index < self.base_index:
                    self._clear(index, term)  # its entries were in a segment that a snapshot made superfluous
                self._drop_above(index)
            case (_, index, _):
                if index != self.last_index + 1:
                    raise JournalDamaged(f"{path} holds entry {index}, expected {self.last_index + 1}")
                self._entries.append(record)
                self.entry_bytes += len(record[0]) + ENTRY_OVERHEAD_BYTES

    def _clear(self, index: int, term: int) -> None:
        self._entries.clear()
        self.entry_bytes = 0
        self.base_index, self.base_term = index, term

    def _drop_above(self, index: int) -> None:
        keep = index - self.base_index
        self.entry_bytes -= sum(len(entry[0]) + ENTRY_OVERHEAD_BYTES for entry in self._entries[keep:])
        del self._entries[keep:]
