"""Look at a replica's disk, for people: read-only, without the directory's lock, also while the replica runs.

A replica's directory holds `journal/` and `snapshot/`. `places` takes such a directory, or any directory
above it, or the journal's own. What a command means is said by a decoder that the caller brings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from storage.raft.disk import Disk
from storage.raft.errors import StorageError
from storage.raft.journal import WAY_OUT
from storage.raft.members import Members, unpack
from storage.raft.records import Frame, HardState, Reset, Torn, Truncate, decode_header, scan
from storage.raft.recovery import MARK_NAME, SEGMENT_SUFFIX, Identity, Recovery
from storage.raft.skeleton import MEMBERS, NO_OP
from storage.raft.snapshot import NAME as SNAPSHOT_NAME
from storage.raft.snapshot import decode as decode_snapshot

READ_ATTEMPTS: Final = 3
"""How often a read is repeated: a running replica removes segments meanwhile."""
LOCK_NAME: Final = "lock"
PARTS: Final = ("journal", "snapshot")
"""The two directories of a replica."""

Decode = Callable[[str, bytes], Any]
"""A function that is called with the replica's id and a command without its kind, and says what the command
means, as plain values. Raises ValueError."""


class Place(NamedTuple):
    """The paths of one replica's files; None: there is none below the directory that was given."""

    path: str
    journal: str | None
    """The directory of the segments."""
    snapshot: str | None
    """The snapshot's file."""


@dataclass(frozen=True, slots=True)
class SnapshotView:
    index: int
    term: int
    size_bytes: int
    members: Members | None


@dataclass(frozen=True, slots=True)
class SegmentView:
    sequence: int
    version: int
    size_bytes: int
    entries: int
    first_index: int | None
    last_index: int | None
    terms: tuple[int, ...]
    """The terms of the segment's entries, each once, in order."""
    term: int
    vote: str | None
    """The term and vote at the segment's end: the vote is None if there is none."""
    state: str
    """What the segment's bytes are: "whole", or what follows the whole records, and where."""


@dataclass(frozen=True, slots=True)
class RecordView:
    segment: int
    kind: str
    index: int | None
    term: int
    content: Any
    """What the record says, as plain values."""


@dataclass(slots=True)
class Report:
    """One replica's verdict: sound if there are no problems."""

    path: str
    identity: Identity | None = None
    incarnation: int | None = None
    founders: Members = ()
    first_index: int = 0
    """The index after which the journal has entries."""
    last_index: int = 0
    snapshot: SnapshotView | None = None
    running_pid: int | None = None
    """The process that holds the directory's lock, if the system tells."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def places(root: str) -> list[Place]:
    """Return the files of every replica at or below `root`. Raises OSError."""
    root = os.path.normpath(root)
    if os.path.basename(root) in PARTS:
        root = os.path.dirname(root)
    os.listdir(root)
    found: dict[str, Place] = {}
    for path, directories, files in os.walk(root):
        directories.sort()
        part = os.path.basename(path)
        is_journal = MARK_NAME in files or any(name.endswith(SEGMENT_SUFFIX) for name in files)
        is_journal |= LOCK_NAME in files and part == "journal"
        has_snapshot = SNAPSHOT_NAME in files and (is_journal or part == "snapshot")
        if not is_journal and not has_snapshot:
            continue
        home = os.path.dirname(path) if part in PARTS else path
        place = found.setdefault(home, Place(home, None, None))
        if is_journal:
            place = place._replace(journal=path)
        if has_snapshot:
            place = place._replace(snapshot=os.path.join(path, SNAPSHOT_NAME))
        found[home] = place
    return list(found.values())


def check(place: Place) -> Report:
    """Check every byte of one replica. Damage is told in the report; raises OSError."""
    attempts_left = READ_ATTEMPTS
    while True:
        attempts_left -= 1
        try:
            return _checked(place)
        except FileNotFoundError:
            if not attempts_left:
                raise


def _checked(place: Place) -> Report:
    report = Report(place.path)
    if place.journal is None:
        report.problems.append(f"{place.path} has a snapshot and no journal")
    else:
        report.running_pid = _holder_of(os.path.join(place.journal, LOCK_NAME))
        _check_journal(report, place.journal)
    if place.snapshot is not None:
        _check_snapshot(report, place.snapshot)
    snapshot = report.snapshot
    covered_index = 0 if snapshot is None else snapshot.index
    if not report.problems and covered_index < report.first_index:
        ends = "there is no snapshot" if snapshot is None else f"the snapshot ends at {covered_index}"
        report.problems.append(f"{place.path}: the journal begins after entry {report.first_index}, {ends}")
    return report


def _check_journal(report: Report, directory: str) -> None:
    found = Recovery(Disk(), directory, None, keep_entries=False)
    try:
        found.run()
    except StorageError as error:
        report.problems.append(str(error))
        return
    report.problems += found.problems
    if not found.segments and not found.problems:
        report.problems.append(f"{directory} holds no segment")
    report.identity = found.identity
    if found.header is not None:
        report.incarnation, report.founders = found.header.incarnation, found.header.founders
    report.first_index, report.last_index = found.base_index, found.last_index
    if found.cut is not None:
        torn_bytes = os.path.getsize(found.segments[-1].path) - found.cut
        report.notes.append(
            f"{found.segments[-1].path} ends in {torn_bytes} bytes from byte {found.cut} on that are no "
            "whole record, as a crash leaves them: the next start cuts them"
        )
    if found.headless is not None:
        report.notes.append(f"{found.headless} was being begun: the next start removes it")
    if found.mark is None and os.path.exists(os.path.join(directory, MARK_NAME)):
        report.notes.append(f"{directory}/{MARK_NAME} is not readable: the next start writes it anew")


def _check_snapshot(report: Report, path: str) -> None:
    try:
        identity, snapshot = decode_snapshot(path, Disk().read(path))
    except StorageError as error:
        report.problems.append(str(error).removesuffix(f": {WAY_OUT}"))
        return
    report.snapshot = SnapshotView(snapshot.index, snapshot.term, len(snapshot.data), snapshot.members)
    if report.identity is None:
        report.identity = identity
    elif identity != report.identity:
        report.problems.append(
            f"{path} belongs to replica {identity.replica_id!r} of tier {identity.tier_id!r}, the journal to "
            f"{report.identity.replica_id!r} of {report.identity.tier_id!r}"
        )


def _holder_of(lock: str) -> int | None:
    """Return the process that holds this lock file, from the kernel's list; None also if there is no list."""
    try:
        inode = str(os.stat(lock).st_ino)
        with open("/proc/locks", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    # A line of the list: "1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF".
    held = (line for line in lines if line[1] == "FLOCK" and line[5].rpartition(":")[2] == inode)
    return next((int(line[4]) for line in held), None)


def segments(directory: str) -> Iterator[SegmentView | str]:
    """Yield a view of every segment, or what is wrong with it. Raises OSError."""
    for path in _segment_paths(directory):
        content = Disk().read(path)
        try:
            frame = decode_header(content)
            yield f"{path} has no readable header" if frame is None else _survey(content, frame)
        except ValueError as error:
            yield f"{path}: {error}"


def _survey(content: bytes, frame: Frame) -> SegmentView:
    header = frame.header
    term, vote = header.term, header.vote
    entries = 0
    first_index: int | None = None
    last_index: int | None = None
    terms: dict[int, None] = {}
    state = "whole"
    for record in scan(content, frame.start, frame.seed, frame.version):
        if len(record) == 3:
            entries += 1
            last_index = record[1] if last_index is None else max(last_index, record[1])
            first_index = record[1] if first_index is None else first_index
            terms[record[2]] = None
        elif isinstance(record, HardState):
            term, vote = record
        elif isinstance(record, Torn):
            behind = (
                "whole records seem to follow" if record.whole_records_follow else "nothing whole follows"
            )
            state = f"broken at byte {record.offset}, {behind}"
    return SegmentView(
        header.sequence,
        frame.version,
        len(content),
        entries,
        first_index,
        last_index,
        tuple(terms),
        term,
        vote,
        state,
    )


def records(directory: str, from_index: int, limit: int, decode: Decode) -> Iterator[RecordView]:
    """Yield up to `limit` records in the order of the disk, from the first entry with at least `from_index`
    on; those of damaged segments as far as they are whole. Raises OSError."""
    left = limit
    begun = from_index <= 0
    for path in _segment_paths(directory):
        content = Disk().read(path)
        frame = decode_header(content)
        if frame is None:
            continue
        for record in scan(content, frame.start, frame.seed, frame.version):
            if isinstance(record, Torn):
                break
            begun = begun or (len(record) == 3 and record[1] >= from_index)
            if not begun:
                continue
            if not left:
                return
            left -= 1
            yield _view(frame, record, decode)


def _view(frame: Frame, record: Any, decode: Decode) -> RecordView:
    sequence = frame.header.sequence
    match record:
        case HardState(term, vote):
            return RecordView(sequence, "hard state", None, term, {"vote": vote})
        case Truncate(index, term):
            return RecordView(sequence, "truncate after", index, term, None)
        case Reset(index, term):
            return RecordView(sequence, "reset to", index, term, None)
    command, index, term = record
    kind, content = command[:1], command[1:]
    if kind == NO_OP:
        return RecordView(sequence, "no-op", index, term, None)
    try:
        if kind == MEMBERS:
            return RecordView(sequence, "members", index, term, [each._asdict() for each in unpack(content)])
        return RecordView(sequence, "entry", index, term, decode(frame.header.replica_id, content))
    except ValueError as error:
        return RecordView(sequence, "entry", index, term, f"not readable: {error}")


def _segment_paths(directory: str) -> list[str]:
    names = (name for name in Disk().list(directory) if name.endswith(SEGMENT_SUFFIX))
    return [os.path.join(directory, name) for name in names]
