"""The Raft log and hard state (term, vote) on disk: append-only segments, synced in groups.

The law of this file: `durable_index` never counts an entry that a power loss could take back. Entries
above the last snapshot are also held in memory. After a failed write or sync the journal is `failed`
for the rest of its life: the kernel may have dropped the dirty pages, so a second sync that succeeds
would prove nothing. What the entries mean, and when to take a snapshot, is decided elsewhere.

At start a torn tail (nothing whole follows it, nobody can have been told of it) is cut; damage stops the
start with JournalDamaged and nothing is cut. How the two are told apart is said in recovery.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from storage.raft.disk import AppendFile, Executor, Files, SyncSpeed
from storage.raft.errors import WAY_OUT, JournalDamaged, JournalFailed, explain
from storage.raft.members import FOUNDING, FOUNDING_INCARNATION, Genesis
from storage.raft.records import (
    ENTRY_OVERHEAD_BYTES,
    FORMAT_VERSION,
    Entry,
    HardState,
    Mark,
    Record,
    Reset,
    SegmentHeader,
    Truncate,
    encode_all,
    encode_header,
    seed_of,
    size_of,
    within,
)
from storage.raft.recovery import (
    SEGMENT_SUFFIX,
    Identity,
    Progress,
    Recovery,
    Segment,
    SyncMark,
    segment_name,
)

__all__ = ["SEGMENT_SUFFIX", "WAY_OUT", "Genesis", "Identity", "Journal"]

SEGMENT_BYTES: Final = 16 * 1024 * 1024


class Journal:
    """The journal of one replica. It is not thread-safe: one loop owns it; only the sync itself runs in
    `executor`.

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
        genesis: Genesis = FOUNDING,
        on_progress: Progress | None = None,
        clock: Callable[[], float] = time.perf_counter,
        wait_for: Callable[[Callable[[], None]], None] = lambda sync: sync(),
    ) -> None:
        """Open the journal. `executor` None means sync=False. `genesis` is for a directory without segments;
        of one whose segments are all of format version 1 it says the founders. `on_progress` is called after
        each segment if there is much to read; `clock` measures syncs, in seconds; `wait_for` calls those for
        which the loop waits. Raises DirectoryInUse, WrongDirectory, JournalDamaged and OSError."""
        self.base_index = 0
        self.base_term = 0
        self.last_index = 0
        self.term = 0
        self.vote: str | None = None
        self.durable_index = 0
        self.entry_bytes = 0
        self.failed: str | None = None
        self.incarnation, self.founders = genesis
        self._entries: list[Entry] = []
        self._disk = disk
        self._directory = directory
        self._identity = identity
        self._executor = executor
        self._notify = notify
        self._segment_bytes = segment_bytes
        self._on_progress = on_progress
        self._clock = clock
        self._wait_for = wait_for
        self.unwritten: list[Record] = []
        """What waits for `flush`."""
        self._file_bytes = 0
        self._written_index = 0
        self._syncing_index: int | None = None
        self._syncing_end = Mark(0, 0)
        self._mark = SyncMark(disk, directory)
        self._sync_outcome: list[BaseException | None] = []
        """How a sync has ended that is not taken in yet."""
        self._dirty = False
        self._speed = SyncSpeed()
        self._retired: list[AppendFile] = []
        self._segments: list[Segment] = []
        disk.make_directory(directory)
        self._lock = disk.lock(directory)
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise

    # -- what the log holds -------------------------------------------------------------------------

    @property
    def last_term(self) -> int:
        return self._entries[-1][2] if self._entries else self.base_term

    def takes_at_once(self, previous_index: int, previous_term: int) -> bool:
        """Return whether the log ends with this entry, and entries that are appended now are durable when
        `flush` returns, or the journal has failed."""
        return (
            previous_index == self.last_index
            and previous_term == (self._entries[-1][2] if self._entries else self.base_term)
            and not self.unwritten
            and (self._speed.is_light or self._executor is None)
            and self._syncing_index is None
            and self.failed is None
        )

    def term_at(self, index: int) -> int | None:
        """Return the term of the entry at `index`; None if the log does not hold it (compacted or not yet
        there)."""
        position = index - self.base_index
        if position == 0:
            return self.base_term
        if 0 < position <= len(self._entries):
            return self._entries[position - 1][2]
        return None

    def entry(self, index: int) -> Entry:
        return self._entries[index - self.base_index - 1]

    def entries_from(self, index: int, bytes_max: int) -> list[Entry]:
        """Return the entries from `index` on, at least one if there is one, up to `bytes_max` of commands."""
        return within(self._entries, index - self.base_index - 1, bytes_max)

    def tail_within(self, bytes_max: int) -> int:
        """Return the highest index up to which entries can be dropped when `bytes_max` of the newest entries
        stay."""
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
        self.last_index += 1
        self._entries.append(entry)
        self.unwritten.append(entry)
        self.entry_bytes += len(entry[0]) + ENTRY_OVERHEAD_BYTES

    def take(self, entries: tuple[Entry, ...]) -> None:
        """Add the next entries and make them durable, or fail. Only for a log that `takes_at_once`."""
        assert entries[0][1] == self.last_index + 1, "the log has no holes"
        self.last_index += len(entries)
        self._entries += entries
        self.unwritten += entries
        for command, _, _ in entries:
            self.entry_bytes += len(command) + ENTRY_OVERHEAD_BYTES
        self.flush()

    def truncate_after(self, index: int) -> None:
        """Take back every entry above `index`."""
        term = self.term_at(index)
        assert term is not None, "what is compacted is committed and never taken back"
        keep = index - self.base_index
        self.entry_bytes -= size_of(self._entries[keep:])
        del self._entries[keep:]
        self.last_index = index
        self._retract(index)
        self.unwritten.append(Truncate(index, term))

    def reset(self, index: int, term: int) -> None:
        """Empty the log, which then stands at `index`, the end of an installed snapshot. Old segments are
        removed."""
        self._entries.clear()
        self.entry_bytes = 0
        self.base_index, self.base_term = index, term
        self.last_index = index
        self._retract(index)
        self.unwritten.append(Reset(index, term))
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
        self.entry_bytes -= size_of(self._entries[:drop])
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
        self.unwritten.append(HardState(term, vote))
        self._write()
        self._sync_inline()
        if self.failed is not None:
            raise JournalFailed(self.failed)

    def flush(self) -> None:
        """Write what was appended, and start a sync unless one is running. What is quick or rare is synced
        here: a thread would cost more."""
        if self.unwritten:
            self._write()
            if self._file_bytes >= self._segment_bytes:
                self._rotate()
        if not self._dirty or self._syncing_index is not None:
            return
        if self._speed.is_light:
            began = self._clock()
            self._sync_inline()
            now = self._clock()
            self._speed.took(now - began, now)
        else:
            self._start_sync()

    def collect(self) -> None:
        """Take in the end of a sync, if one ended, and start the next one if more was written meanwhile."""
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
            self._try_mark(self._syncing_end)
        self._start_sync()

    def close(self) -> None:
        """Write and sync what is left, stop the executor, give the directory back."""
        self._write()
        if self._executor is not None:
            if self._dirty:
                self._sync_inline()
            self._executor.close()
        for file in (*self._retired, self._file, self._syncer):
            file.close()
        self._mark.close()
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
        if not self.unwritten:
            return
        records, self.unwritten = self.unwritten, []
        if self.failed is not None:
            return
        content = encode_all(records, self._seed, self._file_bytes)
        try:
            self._file.append(content)
        except OSError as error:
            self._fail("write", error)
            return
        self._file_bytes += len(content)
        self._written_index = index = self.last_index
        segment = self._segments[-1]
        segment.last_index = max(segment.last_index, index)
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
        self._syncing_end = self._end()
        self._executor.submit(self._syncer.sync, self._sync_ended)

    def _sync_ended(self, error: BaseException | None, took_s: float) -> None:
        self._speed.took(took_s, self._clock())
        self._sync_outcome.append(error)
        self._notify()

    def _sync_inline(self) -> None:
        if self._executor is None or self.failed is not None:
            return
        try:
            self._wait_for(self._file.sync)
        except OSError as error:
            self._fail("sync", error)
            return
        self._dirty = False
        self.durable_index = self._written_index
        self._try_mark((self._segments[-1].sequence, self._file_bytes))

    def _rotate(self) -> None:
        """Begin a new segment. The old one is synced first: a torn tail may be in the newest only."""
        self._sync_inline()
        if self.failed is not None:
            return
        try:
            old, old_syncer = self._file, self._syncer
            self._create_segment(self._segments[-1].sequence + 1)
        except OSError as error:
            self._fail("new segment", error)
            return
        old.close()
        if self._syncing_index is None:
            old_syncer.close()
        else:
            self._retired.append(old_syncer)  # the executor may be about to sync this very descriptor
        if self._executor is not None:
            self._try_mark(self._end())

    def _remove_segments(self) -> None:
        if self.failed is not None:
            return
        try:
            while len(self._segments) > 1 and self._segments[0].last_index <= self.base_index:
                self._disk.remove(self._segments[0].path)
                del self._segments[0]
        except OSError as error:
            self._fail("remove segment", error)

    def _create_segment(self, sequence: int) -> None:
        path = os.path.join(self._directory, segment_name(sequence))
        header = encode_header(self._header(sequence))
        file, syncer = self._open_twice(path)
        try:
            file.append(header)
            if self._executor is not None:
                file.sync()
                self._disk.sync_directory(self._directory)
        except OSError:
            file.close()
            syncer.close()
            raise
        self._file, self._syncer = file, syncer
        self._seed = seed_of(header)
        self._file_bytes = len(header)
        self._segments.append(
            Segment(sequence, path, FORMAT_VERSION, self._seed, self.last_index, self._file_bytes)
        )

    def _open_twice(self, path: str) -> tuple[AppendFile, AppendFile]:
        """Open the file twice: to write and sync inline, and to sync in the executor. Each open file is told
        once of a failed sync: if they shared one, the executor's could hide it from a later inline sync."""
        file = self._disk.open_append(path)
        try:
            return file, self._disk.open_append(path)
        except OSError:
            file.close()
            raise

    def _header(self, sequence: int) -> SegmentHeader:
        position = self.last_index, self.last_term, self.term, self.vote
        base = self.base_index, self.base_term
        genesis = self.incarnation, self.founders
        return SegmentHeader._make((*self._identity, sequence, *position, *base, *genesis))

    def _end(self) -> Mark:
        return Mark(self._segments[-1].sequence, self._file_bytes)

    def _try_mark(self, synced: tuple[int, int]) -> None:
        try:
            self._mark.move(synced)
        except OSError as error:
            self._fail("mark", error)

    def _fail(self, what: str, error: BaseException) -> None:
        if self.failed is None:
            self.failed = f"journal {self._directory}: {what} failed: {explain(error)}"

    # -- start --------------------------------------------------------------------------------------

    def _open(self) -> None:
        found = Recovery(self._disk, self._directory, self._identity)
        found.run(self._on_progress)
        if found.problems:
            more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
            raise JournalDamaged(f"{found.problems[0]}{more}: {WAY_OUT}")
        if found.headless is not None:
            self._disk.remove(found.headless)
        if found.cut is not None:
            self._disk.truncate(found.segments[-1].path, found.cut)
        self._take(found)
        if self._segments:
            self._continue(found.mark)
        if not self._segments or self._segments[-1].version < FORMAT_VERSION:
            self._create_segment(self._segments[-1].sequence + 1 if self._segments else 1)
        if self._executor is not None:
            self._mark.move(self._end())
        # What was read survived the process, and from now on it survives the machine, too.
        self._written_index = self.durable_index = self.last_index

    def _take(self, found: Recovery) -> None:
        self.base_index, self.base_term = found.base_index, found.base_term
        self.term, self.vote = found.term, found.vote
        self._entries, self._segments = found.entries, found.segments
        self.last_index = self.base_index + len(self._entries)
        self.entry_bytes = size_of(self._entries)
        if found.header is not None:
            self.incarnation, self.founders = found.header.incarnation, found.header.founders
        elif found.segments:
            self.incarnation = FOUNDING_INCARNATION  # version 1 knew no other

    def _continue(self, mark: Mark | None) -> None:
        """Open the newest segment; make durable whatever may not be (its process was killed, failed to sync,
        or ran with sync=False)."""
        newest = self._segments[-1]
        self._seed, self._file_bytes = newest.seed, newest.end
        if self._executor is not None:
            for segment in self._segments:
                synced = mark or Mark(0, 0)
                if segment.sequence >= synced.sequence:
                    self._write_again(segment, synced.end if segment.sequence == synced.sequence else 0)
            self._disk.sync_directory(self._directory)
        if newest.version == FORMAT_VERSION:
            self._file, self._syncer = self._open_twice(newest.path)

    def _write_again(self, segment: Segment, start: int) -> None:
        """Write the segment's end once more. A sync that failed in an earlier process leaves pages that are
        clean and not on the disk: only what is written again is synced again."""
        tail = self._disk.read(segment.path)[start : segment.end]
        if tail:
            self._disk.overwrite(segment.path, tail, start)
        file = self._disk.open_append(segment.path)
        try:
            file.sync()
        finally:
            file.close()
