"""Events become segments that say exactly what happened, wherever the folder is."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from actors.coordinator.told.events import Commits
from storage.history.schema import SCHEMA_VERSION, Move, Recorded, row
from storage.history.segments import compaction, parquet
from storage.history.segments.folder import Folder, FolderError
from storage.history.segments.names import DAY_MS, parse
from storage.history.segments.writer import SegmentWriter
from tests.history.read_back import read_all
from tests.history.segments.making import (
    NODE,
    NOON_MS,
    PARTITION,
    TERM,
    TIER,
    Moved,
    changed,
    publish,
    stretch,
)


@pytest.fixture(params=["directory", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    urls = {"directory": str(tmp_path), "file": tmp_path.as_uri(), "memory": f"memory://{uuid4()}"}
    return Folder(urls[request.param])


def test_what_is_read_is_what_was_recorded(folder: Folder) -> None:
    """Classes alternate, so that columns of different kinds meet in one table."""
    moves = (Move("orders", 1, "a", None), Move("orders", 2, None, "b"))
    events = [
        changed(1),
        Moved(NOON_MS + 2, "g", moves, ("a", "b")),
        changed(3),
        Moved(NOON_MS + 4, "g", None, None),
        Moved(NOON_MS + 5, "g", (), ()),
    ]
    wanted = [row(Recorded(PARTITION, NODE, TERM, *each)) for each in enumerate(events, 1)]
    for each in wanted:
        each["moves"] = [move._asdict() for move in each["moves"]] if "moves" in each else None
        each["waited_for"] = list(each["waited_for"]) if "waited_for" in each else None
    publish(folder, stretch(events))

    table, skipped = read_all(folder)

    assert skipped == []
    names = ("moves", "waited_for")
    rows = table.sort_by("sequence").to_pylist()
    read = [{k: v for k, v in each.items() if v is not None or k in names} for each in rows]
    assert read == wanted


def test_thousands_of_events_keep_their_sequences(folder: Folder) -> None:
    """More than fit into one piece of columns, of two classes."""
    events = [changed(n) if n % 5 else Moved(NOON_MS + n, "g", (), ()) for n in range(3_000)]
    publish(folder, stretch(events, first=100))
    table, _ = read_all(folder, columns=["sequence", "at_ms", "version"])
    table = table.sort_by("sequence")
    assert table["sequence"].to_pylist() == list(range(100, 3_100))
    assert table["at_ms"].to_pylist() == [event.at_ms for event in events]
    assert set(table["version"].to_pylist()) == {SCHEMA_VERSION}


def test_commits_have_row_groups_of_their_own(tmp_path: Path) -> None:
    """A reader who looks for rebalances can pass over commits; a merge keeps them apart, too."""
    folder = Folder(str(tmp_path))
    events = [
        changed(n) if n % 3 else Commits(NOON_MS + n, "g", NOON_MS, NOON_MS + n, 1, 1, 0) for n in range(30)
    ]
    parts = [publish(folder, stretch(events, first=first))[0] for first in (1, 31)]
    merged = compaction.merge(folder, parts, (), lambda: None)
    for segment, rows in ((parts[0], 30), (merged, 60)):
        with parquet.opened(folder, segment) as (file, _):
            kinds = [parquet.row_group(file, n)["kind"].to_pylist() for n in range(file.num_row_groups)]
        assert kinds == [["state_changed"] * (rows * 2 // 3), ["commits"] * (rows // 3)]


def test_a_name_tells_whose_and_which_events_they_are(folder: Folder) -> None:
    publish(folder, stretch([changed(0), changed(1)], term=9, first=41))
    (found,) = folder.segments().found
    path = f"date=2026-11-22/offsets_partition={PARTITION}/{NOON_MS}-9-41-42.parquet"
    assert found.segment.path == path
    assert parse(path) == found.segment


def test_midnight_parts_a_segment(folder: Folder) -> None:
    midnight = NOON_MS + DAY_MS // 2
    segments = publish(
        folder, stretch([changed(0, midnight - 1), changed(1, midnight), changed(2, midnight)])
    )
    days = [(each.folder[:15], each.first_sequence, each.last_sequence) for each in segments]
    assert days == [("date=2026-11-22", 1, 1), ("date=2026-11-23", 2, 3)]


def test_an_event_that_cannot_be_written_does_not_take_others_along(tmp_path: Path) -> None:
    """A text that is no Unicode is somebody's bug; those of its class and piece go with it, no others."""
    writer = SegmentWriter(Folder(str(tmp_path)), TIER, PARTITION, NODE, lambda: None)
    lost = writer.add([stretch([Moved(NOON_MS, "\udcff", (), ()), changed(1), changed(2)])])
    written = writer.publish()
    assert lost + written.lost == 1
    table, _ = read_all(Folder(str(tmp_path)), columns=["kind"])
    assert table["kind"].to_pylist() == ["state_changed"] * 2


def test_a_folder_of_an_unknown_kind_is_refused_in_words() -> None:
    with pytest.raises(FolderError, match=r"history\.dir = 'nowhere://x': Protocol not known"):
        Folder("nowhere://x")


def test_nothing_is_left_of_a_segment_that_cannot_be_written(tmp_path: Path) -> None:
    """The journals need the rest of the disk: here history would need more than there is."""
    writer = SegmentWriter(Folder(str(tmp_path), free_bytes_min=2**62), TIER, PARTITION, NODE, lambda: None)
    writer.add([stretch([changed(1), changed(2)])])
    written = writer.publish()
    assert written.lost == 2
    assert isinstance(written.error, OSError)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
