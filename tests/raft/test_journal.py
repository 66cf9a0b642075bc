"""The journal on a real disk: what is kept, what is cut, what is refused."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.raft.disk import AppendFile, Disk, Worker
from storage.raft.errors import DirectoryInUse, JournalDamaged, JournalFailed, WrongDirectory
from storage.raft.journal import Identity, Journal
from storage.raft.records import Entry, encode_all

IDENTITY = Identity(tier_id="tier", replica_id="partition-0/1.1")


def entry(index: int, term: int = 1, size: int = 5) -> Entry:
    return (b"%d" % index).ljust(size, b"."), index, term


def opened(
    directory: Path, identity: Identity = IDENTITY, disk: Disk | None = None, segment_bytes: int = 1 << 24
) -> Journal:
    return Journal(
        disk or Disk(),
        str(directory),
        identity,
        executor=None,
        notify=lambda: None,
        segment_bytes=segment_bytes,
    )


def entries(journal: Journal) -> list[Entry]:
    return journal.entries_from(journal.base_index + 1, 1 << 30)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Write entries 1 to 5, replace 4 and 5 in term 2, and write a vote."""
    journal = opened(tmp_path)
    journal.set_hard_state(1, "r1")
    for index in range(1, 6):
        journal.append(entry(index))
    journal.truncate_after(3)
    journal.set_hard_state(2, "r2")
    journal.append(entry(4, 2))
    journal.append(entry(5, 2))
    journal.close()
    return tmp_path


def segment(directory: Path) -> Path:
    return sorted(directory.glob("*.journal"))[-1]


def test_reopened_it_holds_what_was_written(written: Path) -> None:
    journal = opened(written)
    assert entries(journal) == [entry(1), entry(2), entry(3), entry(4, 2), entry(5, 2)]
    assert (journal.term, journal.vote) == (2, "r2")
    assert (journal.last_index, journal.last_term, journal.durable_index) == (5, 2, 5)
    assert journal.term_at(3) == 1
    assert journal.term_at(4) == 2
    assert journal.term_at(6) is None
    journal.close()


def test_a_tail_torn_at_any_byte_is_cut_to_whole_records(written: Path) -> None:
    path = segment(written)
    whole = path.read_bytes()
    states = set()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        journal = opened(written)
        held = entries(journal)
        assert held in ([entry(index) for index in range(1, count + 1)] for count in range(6)) or held in (
            [entry(1), entry(2), entry(3), entry(4, 2)],
        )
        states.add((len(held), journal.last_term))
        journal.append(entry(journal.last_index + 1, 3))
        journal.close()
        journal = opened(written)
        assert entries(journal)[:-1] == held
        assert journal.last_term == 3, "what is written behind the cut is found again"
        journal.close()
    assert states == {(count, min(count, 1)) for count in range(6)} | {(4, 2)}


def test_a_flipped_bit_before_whole_records_stops_the_start_and_cuts_nothing(written: Path) -> None:
    path = segment(written)
    whole = path.read_bytes()
    last_record = whole.rindex(b"\xf5\x9arj")
    for offset in range(last_record):
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << (offset % 8)
        path.write_bytes(damaged)
        with pytest.raises((JournalDamaged, WrongDirectory)):
            opened(written)
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    opened(written).close()


def test_damage_in_an_older_segment_is_never_cut(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment_bytes=200)
    for index in range(1, 21):
        journal.append(entry(index, size=50))
        journal.flush()
    journal.close()
    first = sorted(tmp_path.glob("*.journal"))[0]
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(JournalDamaged, match="damaged at byte"):
        opened(tmp_path)


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment_bytes=200)
    for index in range(1, 21):
        journal.append(entry(index, size=50))
        journal.flush()
    journal.close()
    sorted(tmp_path.glob("*.journal"))[1].unlink()
    with pytest.raises(JournalDamaged, match="segment 2 is missing"):
        opened(tmp_path)


def test_a_torn_command_that_holds_a_record_is_cut_all_the_same(written: Path) -> None:
    """Clients choose what commands contain: a forged record in one does not make a torn tail damage."""
    path = segment(written)
    forged = encode_all([entry(6, 2)], seed=0, offset=0)
    journal = opened(written)
    journal.append((forged + b"tail", 6, 2))
    journal.close()
    path.write_bytes(path.read_bytes()[:-1])
    journal = opened(written)
    assert journal.last_index == 5
    journal.close()


def _hold(directory: str, held: Callable[[], object], release: Callable[[], object]) -> None:
    opened(Path(directory))
    held()
    release()


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(str(tmp_path), held.set, release.wait))
    process.start()
    try:
        assert held.wait(30)
        with pytest.raises(DirectoryInUse, match=r"in use by another process"):
            opened(tmp_path)
    finally:
        release.set()
        process.join(30)
    opened(tmp_path).close()


@pytest.mark.parametrize(
    "identity",
    [Identity(tier_id="other", replica_id=IDENTITY.replica_id), Identity(tier_id="tier", replica_id="0/2")],
)
def test_the_directory_of_another_is_refused_untouched(written: Path, identity: Identity) -> None:
    before = segment(written).read_bytes()
    with pytest.raises(WrongDirectory, match=r"belongs to replica 'partition-0/1\.1' of tier 'tier'"):
        opened(written, identity)
    assert segment(written).read_bytes() == before
    opened(written).close()


def test_another_format_version_is_refused(written: Path) -> None:
    path = segment(written)
    content = bytearray(path.read_bytes())
    content[4] = 9
    path.write_bytes(content)
    with pytest.raises(WrongDirectory, match=r"format version 9, this release reads \(1, 2\)"):
        opened(written)


def test_compaction_removes_segments_and_keeps_term_vote_and_tail(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment_bytes=1_000)
    journal.set_hard_state(7, "r1")
    for index in range(1, 101):
        journal.append(entry(index, 7, size=100))
        journal.flush()
    segments = len(list(tmp_path.glob("*.journal")))
    bytes_before = journal.entry_bytes
    journal.compact(90)
    assert journal.entry_bytes * 10 == bytes_before
    assert len(list(tmp_path.glob("*.journal"))) < segments / 4
    journal.close()
    journal = opened(tmp_path, segment_bytes=1_000)
    assert journal.base_index <= 90
    assert journal.last_index == 100
    assert journal.entry(95) == entry(95, 7, size=100)
    assert (journal.term, journal.vote) == (7, "r1")
    journal.close()


def test_a_reset_log_stands_at_the_snapshot_after_reopening(written: Path) -> None:
    journal = opened(written)
    journal.reset(40, 9)
    journal.append(entry(41, 9))
    journal.close()
    journal = opened(written)
    assert (journal.base_index, journal.base_term) == (40, 9)
    assert entries(journal) == [entry(41, 9)]
    journal.close()


def test_a_truncation_below_the_first_kept_segment_is_replayed(tmp_path: Path) -> None:
    """The cut entries lay in segments that a later snapshot made superfluous."""
    journal = opened(tmp_path, segment_bytes=300)
    for index in range(1, 11):
        journal.append(entry(index, size=40))
        journal.flush()
    journal.truncate_after(4)
    for index in range(5, 31):
        journal.append(entry(index, 2, size=40))
        journal.flush()
    journal.compact(28)
    journal.close()
    journal = opened(tmp_path)
    assert journal.base_index <= 28
    assert entries(journal)[-2:] == [entry(29, 2, size=40), entry(30, 2, size=40)]
    journal.close()


class _Gate(Disk):
    """A disk whose sync waits, or fails, on command."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.sync_error: OSError | None = None
        self.write_error: OSError | None = None

    def open_append(self, path: str) -> AppendFile:
        return _GatedFile(self, super().open_append(path))


class _GatedFile:
    def __init__(self, gate: _Gate, file: AppendFile) -> None:
        self._gate = gate
        self._file = file

    def append(self, content: bytes) -> None:
        if self._gate.write_error is not None:
            raise self._gate.write_error
        self._file.append(content)

    def sync(self) -> None:
        assert self._gate.open.wait(30)
        if self._gate.sync_error is not None:
            raise self._gate.sync_error
        self._file.sync()

    def close(self) -> None:
        self._file.close()


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[tuple[_Gate, Journal, threading.Semaphore]]:
    gate = _Gate()
    notified = threading.Semaphore(0)
    journal = Journal(gate, str(tmp_path), IDENTITY, executor=Worker("journal"), notify=notified.release)
    yield gate, journal, notified
    gate.open.set()
    journal.close()


def test_an_entry_is_durable_only_after_its_sync(
    gated: tuple[_Gate, Journal, threading.Semaphore],
) -> None:
    gate, journal, notified = gated
    gate.open.clear()
    journal.append(entry(1))
    journal.flush()
    journal.append(entry(2))
    journal.flush()
    journal.collect()
    assert journal.durable_index == 0
    gate.open.set()
    assert notified.acquire(timeout=30)
    journal.collect()
    assert journal.durable_index == 1, "the first sync began before entry 2 was written"
    assert notified.acquire(timeout=30)
    journal.collect()
    assert journal.durable_index == 2


def test_a_sync_does_not_count_for_entries_that_replaced_its_own(
    gated: tuple[_Gate, Journal, threading.Semaphore],
) -> None:
    gate, journal, notified = gated
    gate.open.clear()
    for index in (1, 2, 3):
        journal.append(entry(index))
    journal.flush()
    journal.truncate_after(1)
    for index in (2, 3):
        journal.append(entry(index, 2))
    journal.flush()
    gate.open.set()
    assert notified.acquire(timeout=30)
    journal.collect()
    assert journal.durable_index == 1
    assert notified.acquire(timeout=30)
    journal.collect()
    assert journal.durable_index == 3


def test_after_a_failed_sync_nothing_becomes_durable_any_more(
    gated: tuple[_Gate, Journal, threading.Semaphore],
) -> None:
    gate, journal, notified = gated
    gate.sync_error = OSError(5, "Input/output error")
    journal.append(entry(1))
    journal.flush()
    assert notified.acquire(timeout=30)
    journal.collect()
    gate.sync_error = None
    assert journal.failed is not None
    assert "Input/output error" in journal.failed
    journal.append(entry(2))
    journal.flush()
    journal.collect()
    assert journal.durable_index == 0
    with pytest.raises(JournalFailed):
        journal.set_hard_state(3, "r1")


def test_a_full_disk_fails_the_journal_and_a_restart_finds_what_was_whole(tmp_path: Path) -> None:
    gate = _Gate()
    journal = opened(tmp_path, disk=gate)
    journal.append(entry(1))
    journal.flush()
    gate.write_error = OSError(28, "No space left on device")
    journal.append(entry(2))
    journal.flush()
    assert journal.failed is not None
    assert "No space left" in journal.failed
    assert journal.durable_index == 1
    journal.close()
    journal = opened(tmp_path)
    assert entries(journal) == [entry(1)]
    journal.close()
