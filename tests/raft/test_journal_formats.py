"""Files of format version 1, made by the release that wrote it, and what version 2 adds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage.raft.disk import Disk
from storage.raft.errors import JournalDamaged, WrongDirectory
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import FOUNDING_INCARNATION, Members, founders
from storage.raft.records import decode_header
from storage.raft.snapshot import Snapshot, SnapshotStore

GOLDEN = Path(__file__).parent / "golden"
IDENTITY = Identity(tier_id="tier", replica_id="partition-0-1")
MEMBERS = founders({0: 1, 1: 2, 2: 3})
NEWCOMER = Genesis(1 << 62 | 5, ())


def golden(directory: Path) -> Path:
    """Unpack a journal of version 1: entries 1 to 9, some replaced, then a reset to 8 and the entries 9 to
    12."""
    for number in (1, 2):
        name = f"{number:012d}"
        shutil.copy(GOLDEN / f"version-1-{name}.bin", directory / f"{name}.journal")
    return directory


def opened(directory: Path, genesis: Genesis, segment_bytes: int = 1 << 24) -> Journal:
    return Journal(
        Disk(),
        str(directory),
        IDENTITY,
        executor=None,
        notify=lambda: None,
        segment_bytes=segment_bytes,
        genesis=genesis,
    )


def versions(directory: Path) -> list[int]:
    frames = [decode_header(path.read_bytes()) for path in sorted(directory.glob("*.journal"))]
    return [frame.version for frame in frames if frame is not None]


def founders_of(directory: Path, genesis: Genesis) -> tuple[int, Members]:
    journal = opened(directory, genesis)
    journal.close()
    return journal.incarnation, journal.founders


def test_a_journal_of_version_1_is_read_and_continued_in_version_2(tmp_path: Path) -> None:
    journal = opened(golden(tmp_path), Genesis(FOUNDING_INCARNATION, MEMBERS))
    assert (journal.base_index, journal.base_term) == (8, 3)
    assert (journal.term, journal.vote) == (3, None)
    entries = journal.entries_from(9, 1 << 20)
    assert entries == [((b"\x00%d of 3" % index).ljust(40, b"."), index, 3) for index in range(9, 13)]
    assert (journal.incarnation, journal.founders) == (FOUNDING_INCARNATION, MEMBERS)
    journal.append((b"\x00new", 13, 3))
    journal.close()
    for number in (1, 2):
        name = f"{number:012d}"
        before = (GOLDEN / f"version-1-{name}.bin").read_bytes()
        assert (tmp_path / f"{name}.journal").read_bytes() == before, "version 1 is never written"
    assert versions(tmp_path) == [1, 1, 2]
    journal = opened(tmp_path, NEWCOMER)
    assert journal.entries_from(9, 1 << 20) == [*entries, (b"\x00new", 13, 3)]
    assert (journal.incarnation, journal.founders) == (FOUNDING_INCARNATION, MEMBERS)
    journal.close()


def test_a_journal_of_version_1_is_a_founders_whatever_genesis_says(tmp_path: Path) -> None:
    assert founders_of(golden(tmp_path), NEWCOMER) == (FOUNDING_INCARNATION, ())


@pytest.mark.parametrize("name", ["000000000001", "000000000002"])
def test_any_flipped_bit_of_version_1_stops_the_start_or_is_in_the_last_record(
    tmp_path: Path, name: str
) -> None:
    whole = (GOLDEN / f"version-1-{name}.bin").read_bytes()
    last_record = whole.rindex(b"\xf5\x9arj") if name.endswith("2") else len(whole)
    for offset in range(0, last_record, 3):
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << (offset % 8)
        (golden(tmp_path) / f"{name}.journal").write_bytes(damaged)
        with pytest.raises((JournalDamaged, WrongDirectory)):
            opened(tmp_path, NEWCOMER)


def test_genesis_counts_once_and_is_in_every_segment(tmp_path: Path) -> None:
    journal = opened(tmp_path, Genesis(7, MEMBERS), segment_bytes=500)
    for index in range(1, 31):
        journal.append((b"\x00" * 100, index, 1))
        journal.flush()
    journal.compact(25)
    journal.close()
    assert founders_of(tmp_path, NEWCOMER) == (7, MEMBERS)
    frames = [decode_header(path.read_bytes()) for path in tmp_path.glob("*.journal")]
    assert {(frame.header.incarnation, frame.header.founders) for frame in frames if frame is not None} == {
        (7, MEMBERS)
    }


def test_segments_of_two_incarnations_are_no_journal(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for directory, genesis in ((ours, Genesis(7, ())), (theirs, Genesis(8, ()))):
        journal = opened(directory, genesis, segment_bytes=500)
        for index in range(1, 31):
            journal.append((b"\x00" * 100, index, 1))
            journal.flush()
        journal.close()
    newest = sorted(theirs.glob("*.journal"))[-1]
    shutil.copy(newest, ours / newest.name)
    with pytest.raises(JournalDamaged, match="has incarnation 8 and founders"):
        opened(ours, NEWCOMER)


def test_what_was_compacted_is_not_held_again_after_a_restart(tmp_path: Path) -> None:
    journal = opened(tmp_path, NEWCOMER)
    for index in range(1, 31):
        journal.append((b"\x00" * 100, index, 1))
    journal.compact(25)
    held = journal.entry_bytes
    journal.close()
    assert versions(tmp_path) == [2, 2], "the first segment stays: entries 26 to 30 are in it"
    journal = opened(tmp_path, NEWCOMER)
    assert (journal.base_index, journal.last_index, journal.entry_bytes) == (25, 30, held)
    journal.close()


def test_progress_is_told_once_a_segment_of_a_big_journal(tmp_path: Path) -> None:
    journal = opened(tmp_path, NEWCOMER)
    for index in range(1, 83):
        journal.append((bytes(1 << 20), index, 1))
        journal.flush()
    journal.close()
    told: list[tuple[int, int]] = []
    journal = Journal(
        Disk(),
        str(tmp_path),
        IDENTITY,
        executor=None,
        notify=lambda: None,
        on_progress=lambda done, total: told.append((done, total)),
    )
    journal.close()
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*.journal"))]
    assert told == [(sum(sizes[: count + 1]), sum(sizes)) for count in range(len(sizes))]


def test_a_snapshot_of_version_1_has_no_members(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "version-1-snapshot.bin", tmp_path / "snapshot")
    store = SnapshotStore(Disk(), str(tmp_path), IDENTITY)
    assert store.load() == Snapshot.of(8, 3, b"the state after entry 8", None)


def test_a_snapshot_carries_its_members(tmp_path: Path) -> None:
    store = SnapshotStore(Disk(), str(tmp_path), IDENTITY)
    store.save(Snapshot.of(20, 4, b"state", MEMBERS))
    assert SnapshotStore(Disk(), str(tmp_path), IDENTITY).load() == Snapshot.of(20, 4, b"state", MEMBERS)
