"""Read a journal's directory: check every byte, replay the records, change nothing.

What a crash leaves is told apart from damage, as far as that can be:

* A torn tail (the newest segment ends in bytes that are no whole record, and nothing whole follows them)
  is what a crash leaves of a write that was never synced. `cut` says where it begins.
* The mark says how far the journal was synced when it was last written: after every sync, itself unsynced.
  What is missing or broken below it was acknowledged, and is damage even where a tail could have been torn.
  After the process ended the mark is exact. After the machine lost power it may be seconds old: only then,
  and only in what the newest segment took since, can lost synced records that have no whole record behind
  them pass for a torn tail. What Raft acknowledged is then still on a majority, if it hits one replica only.
* Everything else is damage: broken bytes with whole records behind them (also if they were never synced and
  the disk wrote the later ones first: that looks the same), broken bytes in an older segment, a segment that
  is missing, renamed, or does not continue the one before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from storage.raft.disk import Files, FixedFile, ReadFiles
from storage.raft.errors import WrongDirectory
from storage.raft.records import (
    RECORD_MAGIC,
    Entry,
    Frame,
    HardState,
    Mark,
    Record,
    Reset,
    SegmentHeader,
    Torn,
    Truncate,
    decode_header,
    decode_mark,
    encode_mark,
    scan,
)

SEGMENT_SUFFIX: Final = ".journal"
MARK_NAME: Final = "synced"
PROGRESS_BYTES_MIN: Final = 64 * 1024 * 1024
"""The size in bytes from which on progress is told: less is read before anybody could ask."""

Progress = Callable[[int, int], None]
"""A function that is called with the bytes read so far and the bytes in all."""


class Identity(NamedTuple):
    """The tier and the replica to which a directory belongs."""

    tier_id: str
    replica_id: str


@dataclass(slots=True)
class Segment:
    sequence: int
    path: str
    version: int
    seed: int
    last_index: int
    """The highest index that was ever written to the segment."""
    end: int
    """How many of the segment's bytes are whole."""


def segment_name(sequence: int) -> str:
    return f"{sequence:012d}{SEGMENT_SUFFIX}"


class Recovery:
    """What a directory of segments says. With `identity` None it is taken from the first segment."""

    def __init__(
        self, disk: ReadFiles, directory: str, identity: Identity | None, *, keep_entries: bool = True
    ) -> None:
        self.identity = identity
        self.base_index = self.base_term = 0
        self.last_index = self.last_term = 0
        self.term = 0
        self.vote: str | None = None
        self.header: SegmentHeader | None = None
        """The header of the newest segment whose format version has incarnation and founders; None: there is
        none."""
        self.entries: list[Entry] = []
        """The entries above the base, if they are kept."""
        self.segments: list[Segment] = []
        self.cut: int | None = None
        """Where the newest segment's torn tail begins; None: it has none."""
        self.headless: str | None = None
        """The segment that was being begun: its header is not whole and nothing is behind it. None: there is
        none."""
        self.mark: Mark | None = None
        self.problems: list[str] = []
        """Sentences that say what is damaged, and where."""
        self._disk = disk
        self._directory = directory
        self._keep_entries = keep_entries
        self._continues = False
        """Whether the state holds what the segments before this one said."""

    def run(self, on_progress: Progress | None = None) -> None:
        """Read everything. Raises WrongDirectory and OSError; damage is listed in `problems`."""
        # The mark is read before the names: of a replica that runs, it must not speak of a segment not listed
        # yet.
        if MARK_NAME in self._disk.list(self._directory):
            self.mark = decode_mark(self._disk.read(os.path.join(self._directory, MARK_NAME)))
        names = [name for name in self._disk.list(self._directory) if name.endswith(SEGMENT_SUFFIX)]
        paths = [os.path.join(self._directory, name) for name in names]
        sizes = [self._disk.size(path) for path in paths] if on_progress is not None else []
        total_bytes = sum(sizes)
        for position, path in enumerate(paths):
            self._read(path, self._disk.read(path), last=position == len(paths) - 1)
            if on_progress is not None and total_bytes > PROGRESS_BYTES_MIN:
                on_progress(sum(sizes[: position + 1]), total_bytes)
        self._check_mark()

    # -- one segment --------------------------------------------------------------------------------

    def _read(self, path: str, content: bytes, *, last: bool) -> None:
        try:
            frame = decode_header(content)
            if frame is None:
                self._take_headless(path, content, last=last)
            elif self._begin(path, frame):
                self._replay(path, content, frame, last=last)
            else:
                self._continues = False
        except ValueError as error:
            raise WrongDirectory(f"{path}: {error}") from None

    def _take_headless(self, path: str, content: bytes, *, last: bool) -> None:
        """Take a segment without a readable header. A crash left it while it was begun if it is the newest,
        holds no record's mark, and either the one before is there or it was the very first; else it is
        damaged."""
        begun = last and (self.segments or os.path.basename(path) == segment_name(1))
        if begun and RECORD_MAGIC not in content:
            self.headless = path
            return
        self._continues = False
        self.problems.append(f"{path} has no readable header in its {len(content)} bytes")

    def _begin(self, path: str, frame: Frame) -> bool:
        """Check the header. Return False if the segment cannot be what its name says."""
        header = frame.header
        self._check_identity(header)
        if os.path.basename(path) != segment_name(header.sequence):
            self.problems.append(f"{path} holds segment {header.sequence}: files were renamed or exchanged")
            return False
        expected = self.segments[-1].sequence + 1 if self.segments else header.sequence
        if header.sequence != expected:
            gap = f"segment {expected} is"
            if header.sequence > expected + 1:
                gap = f"segments {expected} to {header.sequence - 1} are"
            self.problems.append(f"{path} follows segment {expected - 1}: {gap} missing")
            self._continues = False
        elif self._continues and self._position() != header[3:7]:
            self.problems.append(
                f"{path} continues after (index, term, current term, vote) {header[3:7]}, "
                f"but the segment before it ends at {self._position()}"
            )
            self._continues = False
        if not self._continues:
            self._clear(header.previous_index, header.previous_term)
            self.term, self.vote = header.term, header.vote
        if frame.version > 1:
            self._take_genesis(path, header)
        if self.base_index < header.base_index <= self.last_index:
            del self.entries[: header.base_index - self.base_index]
            self.base_index, self.base_term = header.base_index, header.base_term
        self.segments.append(
            Segment(header.sequence, path, frame.version, frame.seed, self.last_index, frame.start)
        )
        return True

    def _position(self) -> tuple[int, int, int, str | None]:
        return self.last_index, self.last_term, self.term, self.vote

    def _check_identity(self, header: SegmentHeader) -> None:
        theirs = Identity(tier_id=header.tier_id, replica_id=header.replica_id)
        ours = self.identity = self.identity or theirs
        if theirs != ours:
            raise WrongDirectory(
                f"{self._directory} belongs to replica {theirs.replica_id!r} of tier {theirs.tier_id!r}, "
                f"not to replica {ours.replica_id!r} of tier {ours.tier_id!r}"
            )

    def _take_genesis(self, path: str, header: SegmentHeader) -> None:
        before, self.header = self.header, header
        if before is not None and before[-2:] != header[-2:]:
            self.problems.append(
                f"{path} has incarnation {header.incarnation} and founders {header.founders}, the segment "
                f"before it {before.incarnation} and {before.founders}"
            )

    def _replay(self, path: str, content: bytes, frame: Frame, *, last: bool) -> None:
        """Take the segment's records in. At damage the rest of it is left out."""
        segment = self.segments[-1]
        problem: str | None = None
        segment.end = len(content)
        for record in scan(content, frame.start, frame.seed, frame.version):
            if len(record) == 3:  # an entry; all others have two fields
                _, index, term = record
                if index != self.last_index + 1:
                    problem = f"holds entry {index}, expected {self.last_index + 1}"
                    break
                self.last_index, self.last_term = index, term
                if self._keep_entries:
                    self.entries.append(record)
            elif isinstance(record, Torn):
                segment.end = record.offset
                problem = self._judge(record, len(content), last=last)
            else:
                segment.last_index = max(segment.last_index, self.last_index)
                self._turn_back(record)
        segment.last_index = max(segment.last_index, self.last_index)
        self._continues = problem is None
        if problem is not None:
            self.problems.append(f"{path} {problem}")

    def _judge(self, torn: Torn, size: int, *, last: bool) -> str | None:
        """Return what is wrong if this is no torn tail."""
        if last and not torn.whole_records_follow:
            self.cut = torn.offset
            return None
        behind = "whole records seem to follow" if torn.whole_records_follow else "a newer segment is there"
        return f"is damaged at byte {torn.offset} of {size} and that is not its end: {behind}"

    def _turn_back(self, record: Record) -> None:
        match record:
            case HardState(term, vote):
                self.term, self.vote = term, vote
            case Reset(index, term):
                self._clear(index, term)
            case Truncate(index, term):
                if index < self.base_index:
                    self._clear(index, term)  # its entries were in a segment that a snapshot made superfluous
                del self.entries[index - self.base_index :]
                self.last_index, self.last_term = index, term

    def _clear(self, index: int, term: int) -> None:
        self.entries.clear()
        self.base_index, self.base_term = index, term
        self.last_index, self.last_term = index, term

    # -- the mark -----------------------------------------------------------------------------------

    def _check_mark(self) -> None:
        mark = self.mark
        if mark is None:
            return
        newest = self.segments[-1].sequence if self.segments else 0
        path = os.path.join(self._directory, segment_name(mark.sequence))
        was = f"though it was synced up to byte {mark.end}"
        if mark.sequence > newest:
            self.problems.append(f"{path} is missing or has no header, {was}")
        for segment in self.segments:
            # In older segments every torn byte is a problem already.
            if segment.sequence == mark.sequence == newest and segment.end < mark.end:
                self.problems.append(f"{path} is whole up to byte {segment.end} only, {was}")


class SyncMark:
    """The mark, which is written after each sync, and only ever says more than before."""

    def __init__(self, disk: Files, directory: str) -> None:
        self._disk = disk
        self._path = os.path.join(directory, MARK_NAME)
        self._at = 0, 0
        self._file: FixedFile | None = None

    def move(self, synced: tuple[int, int]) -> None:
        """Write down that the journal is synced up to there, a `Mark`. Raises OSError."""
        if synced <= self._at:
            return
        if self._file is None:
            self._file = self._disk.open_fixed(self._path)
        self._file.write(encode_mark(synced))
        self._at = synced

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
