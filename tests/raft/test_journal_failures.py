"""A disk that is full, fails, or goes away under a running journal: it fails for good, and a restart
finds what was whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from storage.raft.disk import (
    KNOWN_SYNCS_MIN,
    QUICK_SYNC_S,
    SLOW_SYNC_S,
    AppendFile,
    Disk,
    Done,
    FixedFile,
    SyncSpeed,
)
from storage.raft.errors import JournalFailed
from storage.raft.journal import Identity, Journal
from storage.raft.records import Entry
from tests.raft.inline import Inline
from tests.simulation.disk import SimDisk

IDENTITY = Identity(tier_id="tier", replica_id="partition-0-1")


class Failing(Disk):
    """Once `step` is set, that step fails; a write fails after half of it."""

    def __init__(self) -> None:
        self.step = ""
        self.synced: list[str] = []
        self.overwritten: list[tuple[str, int]] = []

    def open_append(self, path: str) -> AppendFile:
        self.try_step("open")
        return FailingFile(self, path, super().open_append(path))

    def overwrite(self, path: str, content: bytes, offset: int = 0) -> None:
        self.try_step("mark")
        super().overwrite(path, content, offset)
        self.overwritten.append((os.path.basename(path), offset))

    def open_fixed(self, path: str) -> FixedFile:
        return FailingFixedFile(self, path)

    def remove(self, path: str) -> None:
        self.try_step("remove")
        super().remove(path)

    def sync_directory(self, directory: str) -> None:
        self.try_step("directory")
        super().sync_directory(directory)

    def try_step(self, step: str) -> None:
        if step == self.step:
            raise OSError(28, "No space left on device")


class FailingFile:
    def __init__(self, disk: Failing, path: str, file: AppendFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    def append(self, content: bytes) -> None:
        if self._disk.step == "append":
            self._file.append(content[: len(content) // 2])
        self._disk.try_step("append")
        self._file.append(content)

    def sync(self) -> None:
        self._disk.try_step("sync")
        self._file.sync()
        self._disk.synced.append(os.path.basename(self._path))

    def close(self) -> None:
        self._file.close()


class FailingFixedFile:
    def __init__(self, disk: Failing, path: str) -> None:
        self._disk = disk
        self._path = path

    def write(self, content: bytes) -> None:
        self._disk.overwrite(self._path, content)

    def close(self) -> None:
        pass


def entry(index: int) -> Entry:
    return b"\x00" + bytes([index]) * 99, index, 1


def opened(directory: Path, disk: Disk | None = None, *, sync: bool = True) -> Journal:
    return Journal(
        disk or Disk(),
        str(directory),
        IDENTITY,
        executor=Inline() if sync else None,
        notify=lambda: None,
        segment_bytes=500,
    )


def write(journal: Journal, count: int) -> None:
    for _ in range(count):
        journal.append(entry(journal.last_index + 1))
        journal.flush()
        journal.collect()


def held(directory: Path) -> list[Entry]:
    journal = opened(directory)
    entries = journal.entries_from(journal.base_index + 1, 1 << 20)
    write(journal, 1)
    assert journal.durable_index == len(entries) + 1, "it goes on"
    journal.close()
    return entries


@pytest.mark.parametrize("step", ["append", "sync", "mark", "open", "directory"])
def test_whatever_fails_the_journal_fails_with_it_and_keeps_what_it_promised(
    tmp_path: Path, step: str
) -> None:
    disk = Failing()
    journal = opened(tmp_path, disk)
    write(journal, 2)
    assert journal.durable_index == 2
    disk.step = step
    write(journal, 10)
    assert journal.failed is not None
    assert "[Errno 28] No space left on device" in journal.failed
    promised = journal.durable_index
    disk.step = ""
    write(journal, 10)
    assert journal.durable_index == promised, "failed is failed"
    journal.close()
    entries = held(tmp_path)
    assert entries == [entry(index) for index in range(1, len(entries) + 1)]
    assert len(entries) >= promised


@pytest.mark.parametrize("step", ["open", "append", "sync", "directory", "mark"])
def test_a_segment_that_could_not_be_begun_is_begun_by_the_next_start(tmp_path: Path, step: str) -> None:
    disk = Failing()
    journal = opened(tmp_path, disk)
    write(journal, 3)
    disk.step = step
    journal.compact(2)
    assert journal.failed is not None
    journal.close()
    journal = opened(tmp_path)
    assert journal.entry(3) == entry(3)
    write(journal, 1)
    assert (journal.durable_index, journal.failed) == (4, None)
    journal.close()


def test_a_segment_that_cannot_be_removed_fails_the_journal(tmp_path: Path) -> None:
    disk = Failing()
    journal = opened(tmp_path, disk)
    write(journal, 20)
    disk.step = "remove"
    journal.compact(18)
    assert journal.failed is not None
    assert "remove segment failed" in journal.failed
    journal.close()
    journal = opened(tmp_path)
    assert (journal.last_index, journal.entry(19)) == (20, entry(19))
    journal.close()


def test_a_directory_that_is_gone_fails_the_journal(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal")
    write(journal, 2)
    shutil.rmtree(tmp_path / "journal")
    write(journal, 1)
    assert journal.failed is not None
    assert "the directory is gone, the replica has to be rebuilt from its peers" in journal.failed
    journal.close()


def test_without_sync_it_is_noticed_when_the_next_segment_is_begun(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", sync=False)
    shutil.rmtree(tmp_path / "journal")
    write(journal, 6)
    assert journal.failed is not None
    assert "new segment failed" in journal.failed
    journal.close()


def test_what_was_written_without_sync_is_synced_by_a_start_with_sync(tmp_path: Path) -> None:
    """After a while with `journal.sync = off` nothing written in it counts as durable until it is synced."""
    journal = opened(tmp_path, sync=False)
    write(journal, 12)
    journal.close()
    assert not (tmp_path / "synced").exists(), "nothing was synced, so nothing says so"
    disk = Failing()
    journal = opened(tmp_path, disk)
    assert journal.durable_index == 12
    names = sorted(path.name for path in tmp_path.glob("*.journal"))
    assert disk.synced == names
    assert disk.overwritten == [*((name, 0) for name in names), ("synced", 0)], (
        "an earlier failed sync may have left pages clean: they are written again"
    )
    journal.close()
    disk = Failing()
    opened(tmp_path, disk).close()
    assert disk.synced == names[-1:], "the next start knows"
    assert disk.overwritten == [("synced", 0)]


class Late(Inline):
    """An executor that tells how a sync ended when a test says so."""

    def submit(self, work: Callable[[], None], done: Done) -> None:
        super().submit(work, lambda *outcome: self.held.append(partial(done, *outcome)))

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Callable[[], None]] = []


def test_a_failed_sync_that_nobody_has_heard_of_yet_stops_the_next_one_too(tmp_path: Path) -> None:
    """The system tells a failure once to each open file, and the executor's sync was told."""
    disk, late = SimDisk(Random(1)), Late()
    journal = Journal(disk, "journal", IDENTITY, executor=late, notify=lambda: None)
    disk.failing = True
    journal.append(entry(1))
    journal.flush()
    disk.failing = False
    journal.append(entry(2))
    with pytest.raises(JournalFailed, match="Input/output error"):
        journal.set_hard_state(1, "1.1")
    late.held[0]()
    journal.collect()
    assert journal.durable_index == 0


class Counted(Inline):
    """An executor whose syncs are counted, and quick."""

    def __init__(self) -> None:
        super().__init__(takes_s=QUICK_SYNC_S / 2)
        self.syncs = 0

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self.syncs += 1
        super().submit(work, done)


class Ticking:
    """A clock that each look at it moves on."""

    def __init__(self) -> None:
        self.now_s = self.look_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.look_s
        return self.now_s


def test_a_disk_whose_syncs_are_known_needs_no_thread_until_one_is_slow(tmp_path: Path) -> None:
    executor, clock = Counted(), Ticking()
    disk = Failing()
    journal = Journal(disk, str(tmp_path), IDENTITY, executor=executor, notify=lambda: None, clock=clock)

    def append_one() -> None:
        journal.append(entry(journal.last_index + 1))
        journal.flush()
        journal.collect()

    for _ in range(KNOWN_SYNCS_MIN):
        append_one()
    assert executor.syncs == KNOWN_SYNCS_MIN
    disk.synced.clear()
    append_one()
    assert (executor.syncs, len(disk.synced)) == (KNOWN_SYNCS_MIN, 1)
    assert journal.durable_index == journal.last_index
    clock.look_s = SLOW_SYNC_S
    append_one()
    append_one()
    assert executor.syncs == KNOWN_SYNCS_MIN + 1, "the slow one was the last one here"
    journal.close()


def test_syncs_hold_the_loop_up_for_a_share_of_the_time_only() -> None:
    """A disk needs 5 ms for each sync: 10 a second take a twentieth of the time, 200 a second all of it."""
    speed, now = SyncSpeed(), 0.0
    for interval_s, is_light in ((0.1, True), (0.005, False), (0.1, True)):
        for _ in range(100):
            now += interval_s
            speed.took(0.005, now)
        assert speed.is_light == is_light


def test_after_a_slow_sync_the_loop_does_none_for_ten_times_as_long() -> None:
    speed, now = SyncSpeed(), 100.0
    for _ in range(KNOWN_SYNCS_MIN):
        speed.took(0.002, now)
    assert speed.is_light
    speed.took(0.05, now)
    done_s = []
    for _ in range(20):
        now += 0.1
        speed.took(0.002, now)
        done_s += [now - 100.0] if speed.is_light else []
    assert done_s[0] == pytest.approx(0.5, abs=0.11)
    assert len(done_s) in (15, 16)


def test_quick_syncs_need_no_thread_however_many_they_are() -> None:
    speed, now = SyncSpeed(), 0.0
    for _ in range(1_000):
        now += QUICK_SYNC_S / 2
        speed.took(QUICK_SYNC_S / 2, now)
    assert speed.is_light


def test_a_failed_sync_of_a_quick_disk_makes_nothing_durable(tmp_path: Path) -> None:
    disk = SimDisk(Random(1))
    journal = Journal(disk, "journal", IDENTITY, executor=Counted(), notify=lambda: None, clock=Ticking())
    for index in range(1, KNOWN_SYNCS_MIN + 1):
        journal.append(entry(index))
        journal.flush()
        journal.collect()
    disk.failing = True
    journal.append(entry(KNOWN_SYNCS_MIN + 1))
    journal.flush()
    assert journal.durable_index == KNOWN_SYNCS_MIN
    assert journal.failed is not None


def test_a_mark_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    write(journal, 1)
    (tmp_path / "synced").unlink()
    write(journal, 1)
    assert journal.failed is None
    assert (tmp_path / "synced").exists()
    journal.close()
