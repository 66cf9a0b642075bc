"""A backup's files: what is written is read; damage of any kind is refused with the file's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from crc32c import crc32c

from cluster import backup_manifest
from cluster.backup_file import (
    FRAME,
    FRAME_BYTES,
    HEADER,
    HEADER_BYTES,
    BackupDamaged,
    FileHeader,
    PackedRecord,
    RecordFile,
    read_header,
    read_records,
)
from cluster.backup_manifest import Manifest, check, groups_of

TIER_ID = "t" * 22
COMMIT_INDEX, TERM = 4_711, 3


def offset_of(number: int, metadata: str = "") -> PackedRecord:
    return (1, f"group-{number % 7}", "topic", number), (
        number,
        -1,
        metadata,
        1_700_000_000_000,
        -1,
        bytes(16),
    )


def write_file(path: Path, group: str, records: list[PackedRecord]) -> FileHeader:
    with RecordFile(path) as file:
        for record in records:
            file.add(record)
        return file.finish(TIER_ID, group, COMMIT_INDEX, TERM)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a tier of two partitions: one with several frames, one with nothing in it."""
    directory = tmp_path / "backup"
    directory.mkdir()
    sizes = {"partition-0": 5_000, "partition-1": 0, "controller": 3}
    files = [
        write_file(
            directory / f"{group}.records", group, [offset_of(number) for number in range(sizes[group])]
        )
        for group in groups_of(2)
    ]
    manifest = Manifest(
        tier_id=TIER_ID,
        created_at="2026-01-01T00:00:00+00:00",
        groupd="0.1.0",
        partitions=2,
        files=tuple(files),
    )
    backup_manifest.write(directory, manifest)
    return directory


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_what_is_written_is_read(tmp_path: Path, count: int) -> None:
    path = tmp_path / "partition-0.records"
    records = [offset_of(number) for number in range(count)]
    header = write_file(path, "partition-0", records)
    assert header == read_header(path)
    assert header[:5] == (TIER_ID, "partition-0", COMMIT_INDEX, TERM, count)
    assert header.file_bytes == path.stat().st_size
    assert list(read_records(path, header)) == records


def test_one_record_may_be_larger_than_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "partition-0.records"
    records = [offset_of(0), offset_of(1, "x" * 3 * FRAME_BYTES), offset_of(2)]
    assert list(read_records(path, write_file(path, "partition-0", records))) == records


def test_a_whole_backup_is_checked_and_counted(backup: Path) -> None:
    told: list[tuple[str, int, int]] = []
    manifest = check(backup, lambda *step: told.append(step))
    assert [header.records for header in manifest.files] == [5_000, 0, 3]
    assert told == [("checked", 5_000, 5_003), ("checked", 5_000, 5_003), ("checked", 5_003, 5_003)]


def first_frame_bytes(content: bytes) -> int:
    length: int = FRAME.unpack_from(content, HEADER_BYTES)[0]
    return FRAME.size + length


def flipped(at: int) -> Callable[[bytes], bytes]:
    """Return a damage that turns one bit of the file over."""

    def damage(content: bytes) -> bytes:
        position = at % len(content)
        return content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]

    return damage


def frames_swapped(content: bytes) -> bytes:
    first = HEADER_BYTES + first_frame_bytes(content)
    length: int = FRAME.unpack_from(content, first)[0]
    second = first + FRAME.size + length
    return content[:HEADER_BYTES] + content[first:second] + content[HEADER_BYTES:first] + content[second:]


def frame_twice(content: bytes) -> bytes:
    first = HEADER_BYTES + first_frame_bytes(content)
    return content[:first] + content[HEADER_BYTES:first] + content[first:]


def frame_missing(content: bytes) -> bytes:
    return content[:HEADER_BYTES] + content[HEADER_BYTES + first_frame_bytes(content) :]


def newer_version(content: bytes) -> bytes:
    magic, _, length, crc = HEADER.unpack_from(content)
    return HEADER.pack(magic, 2, length, crc) + content[HEADER.size :]


def frame_of(payload: bytes) -> Callable[[bytes], bytes]:
    """Return a damage that adds a frame no groupd writes, with a right checksum."""

    def damage(content: bytes) -> bytes:
        frame = FRAME.pack(len(payload), crc32c(payload)) + payload
        return content[:HEADER_BYTES] + frame + content[HEADER_BYTES:]

    return damage


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "ends within its header"),
    "header cut": (lambda content: content[: HEADER_BYTES - 1], "ends within its header"),
    "another file": (flipped(0), "no file of a backup"),
    "newer version": (newer_version, "format version 2; this groupd reads 1"),
    "header length": (flipped(7), "header does not match its checksum"),
    "header checksum": (flipped(11), "header does not match its checksum"),
    "header body": (flipped(HEADER.size + 9), "header does not match its checksum"),
    "header padding": (flipped(HEADER_BYTES - 1), "header does not match its checksum"),
    "frame length": (flipped(HEADER_BYTES + 1), "the frame at byte 512 is not whole"),
    "frame length huge": (flipped(HEADER_BYTES + 3), "the frame at byte 512 is not whole"),
    "frame checksum": (flipped(HEADER_BYTES + 5), "the frame at byte 512 is not whole"),
    "first record": (flipped(HEADER_BYTES + FRAME.size), "the frame at byte 512 is not whole"),
    "last record": (flipped(-1), "is not whole"),
    "last byte missing": (lambda content: content[:-1], "is not whole"),
    "last frame's head cut": (lambda content: content + b"\x01", "is not whole"),
    "frame missing": (frame_missing, "its header tells of 5000"),
    "all frames missing": (lambda content: content[:HEADER_BYTES], "0 records in 0 bytes were read"),
    "frame twice": (frame_twice, "its header tells of 5000"),
    "frames swapped": (frames_swapped, "with another checksum"),
    "no record": (frame_of(msgpack.packb(["key", "value"])), "is no record"),
    "no pair": (frame_of(msgpack.packb(1)), "is damaged"),
    "no msgpack": (frame_of(b"\xc1"), "is damaged"),
    "half a record": (frame_of(msgpack.packb(offset_of(1))[:-1]), "a frame ends within a record"),
    "empty frame": (frame_of(b""), "its header tells of 5000"),
    "record too many": (frame_of(msgpack.packb(offset_of(1))), "5001 records"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_with_the_name_of_the_file(backup: Path, kind: str) -> None:
    damage, said = DAMAGE[kind]
    path = backup / "partition-0.records"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BackupDamaged) as refusal:
        check(backup, lambda *_: None)
    assert str(path) in str(refusal.value)
    assert said in str(refusal.value)


@pytest.mark.parametrize("name", ["partition-0.records", "partition-1.records", "controller.records"])
def test_a_missing_file_is_named(backup: Path, name: str) -> None:
    (backup / name).unlink()
    with pytest.raises(BackupDamaged, match=f"{name} cannot be read: No such file"):
        check(backup, lambda *_: None)


def test_every_flipped_bit_of_a_small_file_is_found(backup: Path) -> None:
    """The test flips a bit of each byte of the controller's file."""
    path = backup / "controller.records"
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(flipped(position)(whole))
        with pytest.raises(BackupDamaged, match=r"controller\.records"):
            check(backup, lambda *_: None)
    path.write_bytes(whole)
    check(backup, lambda *_: None)


def test_files_of_another_backup_are_refused(backup: Path) -> None:
    """Each file is whole, but they do not belong to the same backup."""
    path = backup / "partition-1.records"
    path.unlink()
    write_file(path, "partition-1", [offset_of(1)])
    with pytest.raises(BackupDamaged, match=r"partition-1\.records is not the file that manifest\.json"):
        check(backup, lambda *_: None)


def test_files_in_each_others_place_are_refused(backup: Path) -> None:
    first, second = backup / "partition-0.records", backup / "partition-1.records"
    contents = first.read_bytes(), second.read_bytes()
    second.write_bytes(contents[0])
    first.write_bytes(contents[1])
    with pytest.raises(BackupDamaged, match=r"partition-0\.records is not the file"):
        check(backup, lambda *_: None)


@pytest.mark.parametrize("key", ["tier_id", "created_at", "groupd", "settings", "files", "format", "crc32c"])
def test_an_edited_manifest_is_refused(backup: Path, key: str) -> None:
    path = backup / "manifest.json"
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))
    with pytest.raises(BackupDamaged, match=r"manifest\.json is damaged, or was edited"):
        check(backup, lambda *_: None)


def test_a_manifest_that_is_no_json_is_refused(backup: Path) -> None:
    path = backup / "manifest.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BackupDamaged, match=r"manifest\.json is damaged: it is no JSON"):
        check(backup, lambda *_: None)


def test_a_directory_without_a_manifest_is_no_backup(tmp_path: Path) -> None:
    """A directory has no manifest if its backup was interrupted, for example."""
    with pytest.raises(BackupDamaged, match="is no backup"):
        check(tmp_path, lambda *_: None)
