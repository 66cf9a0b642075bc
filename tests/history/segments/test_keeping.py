"""Small segments are merged, old ones removed; readers see every event once all the while."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage.history.segments import compaction, reader
from storage.history.segments.folder import TEMPORARY_KEPT_S, Folder
from storage.history.segments.names import DAY_MS, Found, Segment
from storage.history.segments.retention import expired
from tests.history.read_back import read_all
from tests.history.segments.making import NOON_MS, PARTITION, changed, publish, stretch

TOMORROW_MS = NOON_MS + DAY_MS


def part(number: int, *, term: int = 5, size_bytes: int = 1_000) -> Found:
    """Return the `number`-th segment of a partition, each of ten events."""
    return Found(Segment(PARTITION, NOON_MS + number, term, 10 * number + 1, 10 * number + 10), size_bytes)


def published(root: Path, count: int) -> list[Segment]:
    folder = Folder(str(root))
    parts = (range(10 * n, 10 * n + 10) for n in range(count))
    return [publish(folder, stretch(map(changed, each), first=each[0] + 1))[0] for each in parts]


def sequences(root: Path) -> list[int]:
    table, skipped = read_all(Folder(str(root)), columns=["sequence"])
    assert skipped == []
    found: list[int] = table["sequence"].to_pylist()
    return found


def test_a_past_day_becomes_one_segment_of_each_term() -> None:
    found = [part(0), part(1), part(2), part(3, term=6), part(4, term=7), part(5, term=7)]
    merges = compaction.plan(found, TOMORROW_MS).merges
    assert [[each.term for each in parts] for parts in merges] == [[5, 5, 5], [7, 7]]


def test_of_a_day_under_way_only_many_are_merged() -> None:
    enough = [part(number) for number in range(compaction.PARTS_MIN)]
    assert compaction.plan(enough[1:], NOON_MS).merges == []
    assert compaction.plan(enough, NOON_MS).merges == [[each.segment for each in enough]]


def test_a_merge_has_a_bounded_size_and_no_damaged_part() -> None:
    half = compaction.COMPACTED_BYTES_MAX // 2
    found = [part(number, size_bytes=half) for number in range(6)]
    damaged = {found[3].segment}
    merges = compaction.plan(found, TOMORROW_MS, damaged).merges
    assert merges == [[found[0].segment, found[1].segment], [found[4].segment, found[5].segment]]


def test_before_while_and_after_a_merge_every_event_is_there_once(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    published(tmp_path, 12)
    whole = list(range(1, 121))
    (parts,) = compaction.plan(folder.segments().found, TOMORROW_MS).merges
    seen_while: list[list[int]] = []
    merged = compaction.merge(folder, parts, (), lambda: seen_while.append(sequences(tmp_path)))
    assert seen_while == [whole] * 12
    assert sequences(tmp_path) == whole
    plan = compaction.plan(folder.segments().found, TOMORROW_MS)
    assert (plan.replaced, plan.merges) == (sorted(parts), [])
    folder.remove(plan.replaced)
    assert [each.segment for each in folder.segments().found] == [merged]
    assert sequences(tmp_path) == whole


def test_a_merge_of_merged_ones_replaces_what_they_did(tmp_path: Path) -> None:
    """The second merge is made before the segments that the first one replaced are removed."""
    folder = Folder(str(tmp_path))
    parts = published(tmp_path, 6)
    for some in (parts[:3], parts[3:]):
        compaction.merge(folder, some, (), lambda: None)
    plan = compaction.plan(folder.segments().found, TOMORROW_MS)
    compaction.merge(folder, plan.merges[0], plan.replaced, lambda: None)
    assert len(reader.survey(folder).found) == 1
    assert sequences(tmp_path) == list(range(1, 61))


def test_a_damaged_part_stops_its_merge_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    parts = published(tmp_path, 3)
    (tmp_path / parts[1].path).write_bytes(b"PAR1")
    with pytest.raises(compaction.DamagedPart) as error:
        compaction.merge(folder, parts, (), lambda: None)
    assert error.value.segment == parts[1]
    assert sorted(each.segment for each in folder.segments().found) == parts


def test_what_is_older_than_its_retention_goes_by_whole_days() -> None:
    found = [Found(Segment(PARTITION, NOON_MS + day * DAY_MS, 5, day + 1, day + 1), 100) for day in range(10)]
    gone = expired(found, NOON_MS + 9 * DAY_MS, retention_ms=3 * DAY_MS, retention_bytes=-1)
    assert gone == [each.segment for each in found[:6]]
    assert expired(found, NOON_MS + 9 * DAY_MS, retention_ms=-1, retention_bytes=-1) == []


def test_what_is_more_than_its_bytes_goes_oldest_first() -> None:
    found = [part(number, size_bytes=100) for number in range(5)]
    gone = expired(reversed(found), NOON_MS, retention_ms=-1, retention_bytes=250)
    assert gone == [each.segment for each in found[:3]]


def test_days_without_segments_leave_no_directories(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.remove(published(tmp_path, 2))
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_writer_left_behind_is_removed_and_nothing_younger(tmp_path: Path) -> None:
    (segment,) = published(tmp_path, 1)
    directory = tmp_path / segment.folder
    old, young = directory / ".a.1.tmp", directory / ".b.2.tmp"
    for path in (old, young):
        path.touch()
    long_ago = young.stat().st_mtime - TEMPORARY_KEPT_S - 60
    os.utime(old, (long_ago, long_ago))
    Folder(str(tmp_path)).remove_left_behind(PARTITION)
    assert sorted(path.name for path in directory.iterdir()) == [".b.2.tmp", segment.name]
