"""A snapshot's file is there whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from storage.raft.disk import AppendFile, Disk, Worker
from storage.raft.errors import JournalFailed, SnapshotDamaged, WrongDirectory
from storage.raft.journal import Identity
from storage.raft.snapshot import Snapshot, SnapshotStore

IDENTITY = Identity(tier_id="tier", replica_id="partition-0/1.1")
OLD = Snapshot.of(10, 2, b"the old state")
NEW = Snapshot.of(20, 3, bytes(range(256)) * 64)


def store(directory: Path, disk: Disk | None = None, identity: Identity = IDENTITY) -> SnapshotStore:
    return SnapshotStore(disk or Disk(), str(directory), identity)


def test_the_newest_saved_snapshot_is_loaded(tmp_path: Path) -> None:
    assert store(tmp_path).load() is None
    store(tmp_path).save(OLD)
    store(tmp_path).save(NEW)
    loaded = store(tmp_path)
    assert loaded.load() == NEW
    assert (loaded.index, loaded.size) == (20, len(NEW.data))
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]


@pytest.mark.parametrize("step", ["append", "sync", "rename", "sync_directory"])
def test_a_save_that_ends_anywhere_leaves_one_whole_snapshot(tmp_path: Path, step: str) -> None:
    class Failing(Disk):
        def open_append(self, path: str) -> AppendFile:
            return FailingFile(super().open_append(path))

        def rename(self, old: str, new: str) -> None:
            self._fail("rename")
            super().rename(old, new)

        def sync_directory(self, directory: str) -> None:
            self._fail("sync_directory")

        def _fail(self, here: str) -> None:
            if here == step:
                raise OSError(28, "No space left on device")

    class FailingFile:
        def __init__(self, file: AppendFile) -> None:
            self._file = file

        def append(self, content: bytes) -> None:
            if step == "append":
                self._file.append(content[: len(content) // 2])
                raise OSError(28, "No space left on device")
            self._file.append(content)

        def sync(self) -> None:
            if step == "sync":
                raise OSError(5, "Input/output error")

        def close(self) -> None:
            self._file.close()

    store(tmp_path).save(OLD)
    failing = store(tmp_path, Failing())
    with pytest.raises(OSError, match=r"No space|Input/output"):
        failing.save(NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"], "half a snapshot fills no disk"
    assert store(tmp_path).load() == (NEW if step == "sync_directory" else OLD)
    store(tmp_path).save(NEW)
    assert store(tmp_path).load() == NEW


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    store(tmp_path).save(OLD)
    path = tmp_path / "snapshot"
    whole = path.read_bytes()
    for offset in range(len(whole)):
        damaged = bytearray(whole)
        damaged[offset] ^= 4
        path.write_bytes(damaged)
        with pytest.raises((SnapshotDamaged, WrongDirectory)):
            store(tmp_path).load()


def test_a_cut_file_is_noticed(tmp_path: Path) -> None:
    store(tmp_path).save(OLD)
    path = tmp_path / "snapshot"
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(SnapshotDamaged):
            store(tmp_path).load()


def test_the_snapshot_of_another_replica_is_refused(tmp_path: Path) -> None:
    store(tmp_path).save(OLD)
    with pytest.raises(WrongDirectory, match=r"belongs to replica 'partition-0/1\.1' of tier 'tier'"):
        store(tmp_path, identity=Identity(tier_id="tier", replica_id="partition-1/1.1")).load()


def test_a_save_in_the_background_is_collected_once(tmp_path: Path) -> None:
    ended = threading.Event()
    saving = SnapshotStore(Disk(), str(tmp_path), IDENTITY, executor=Worker("snapshot"), notify=ended.set)
    saving.save_later(NEW)
    assert saving.saving
    assert ended.wait(30)
    assert saving.collect()
    assert not saving.collect()
    assert not saving.saving
    assert saving.load() == NEW
    saving.close()


def test_a_save_in_the_background_that_fails_is_told_and_keeps_the_old_one(tmp_path: Path) -> None:
    class Full(Disk):
        def open_append(self, path: str) -> AppendFile:
            raise OSError(28, "No space left on device")

    store(tmp_path).save(OLD)
    full = store(tmp_path, Full())
    full.save_later(NEW)
    assert not full.collect()
    assert full.failed is not None
    assert "No space left" in full.failed
    assert not full.saving
    assert store(tmp_path).load() == OLD


def test_a_directory_that_is_gone_fails_the_replica(tmp_path: Path) -> None:
    """The journal was shortened for the snapshot that went with it: only a failed replica is rebuilt."""
    saving = store(tmp_path / "snapshot")
    saving.save(OLD)
    (tmp_path / "snapshot" / "snapshot").unlink()
    (tmp_path / "snapshot").rmdir()
    saving.save_later(NEW)
    with pytest.raises(JournalFailed, match="the directory is gone, the replica has to be rebuilt"):
        saving.collect()
