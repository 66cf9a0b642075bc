"""What cannot be read is named and skipped; the rest is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storage.history.schema import arrow_schema
from storage.history.segments import parquet, reader
from storage.history.segments.folder import Folder
from storage.history.segments.names import DAY_MS, Segment
from tests.history.read_back import read_all
from tests.history.segments.making import NOON_MS, PARTITION, changed, publish, stretch


def segments(root: Path, count: int) -> list[Path]:
    """Segments of a hundred events each, in one day."""
    folder = Folder(str(root))
    parts = (range(n * 100, n * 100 + 100) for n in range(count))
    return [root / publish(folder, stretch(map(changed, part), first=part[0] + 1))[0].path for part in parts]


def read(root: Path) -> tuple[list[int], dict[str, str]]:
    """Return the sequence numbers that were read, and for each file that was skipped the reason."""
    table, skipped = read_all(Folder(str(root)), columns=["sequence"])
    return table["sequence"].to_pylist(), {Path(path).name: why for path, why in skipped}


def test_a_segment_cut_short_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    first, second = segments(tmp_path, 2)
    first.write_bytes(first.read_bytes()[:-20])
    sequences, skipped = read(tmp_path)
    assert sequences == list(range(101, 201))
    assert skipped.keys() == {first.name}
    assert skipped[first.name].startswith("cut short or no Parquet")
    assert second.exists()


def test_an_empty_segment_is_named(tmp_path: Path) -> None:
    first, _ = segments(tmp_path, 2)
    first.write_bytes(b"")
    assert read(tmp_path)[1].keys() == {first.name}


def test_a_byte_that_changed_in_a_page_is_found(tmp_path: Path) -> None:
    """The footer is whole, so that only the page's checksum tells."""
    first, _ = segments(tmp_path, 2)
    content = bytearray(first.read_bytes())
    content[60] ^= 0xFF
    first.write_bytes(content)
    table, ((path, why),) = read_all(Folder(str(tmp_path)), columns=["at_ms", "sequence"])
    assert table["sequence"].to_pylist() == list(range(101, 201))
    assert Path(path).name == first.name
    assert why.startswith("damaged in row group 0")


def test_other_schema_versions_are_named_and_skipped(tmp_path: Path) -> None:
    first, second, _ = segments(tmp_path, 3)
    for path, metadata in ((first, {parquet.VERSION_KEY: b"99"}), (second, {})):
        pq.write_table(arrow_schema().empty_table().replace_schema_metadata(metadata), path)
    sequences, skipped = read(tmp_path)
    assert sequences == list(range(201, 301))
    assert skipped == {
        first.name: "schema version 99, and up to 2 is read here",
        second.name: "no schema version, and up to 2 is read here",
    }


def test_foreign_files_are_named_and_hidden_ones_passed_over(tmp_path: Path) -> None:
    (path,) = segments(tmp_path, 1)
    foreign = ("notes.txt", f"{path.parent.relative_to(tmp_path)}/part-0.parquet", f"copied/{path.name}")
    for name in (*foreign, "_tables/rebalances/part-0.parquet", f"{path.parent.relative_to(tmp_path)}/.new"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"?")
    seen = reader.survey(Folder(str(tmp_path)))
    assert [each.path for each in seen.skipped] == sorted(foreign)
    assert seen.rows == 100


def test_a_survey_of_a_period_has_the_segments_of_its_days(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    days = [NOON_MS, NOON_MS + DAY_MS, NOON_MS + 2 * DAY_MS]
    for number, at_ms in enumerate(days, 1):
        publish(folder, stretch([changed(1, at_ms)], first=number))
    seen = reader.survey(folder, since_ms=days[1] + 1, until_ms=days[2])
    assert [each.segment.first_at_ms for each in seen.found] == [days[1]]


def test_a_folder_that_is_not_there_is_an_empty_history(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == ([], {})


def test_a_compacted_segment_hides_what_it_replaces(tmp_path: Path) -> None:
    first, second = segments(tmp_path, 2)
    folder = Folder(str(tmp_path))
    table = pa.concat_tables(pq.read_table(path, partitioning=None) for path in (first, second))
    merged = Segment(PARTITION, NOON_MS, 5, 1, 200, compacted=True)
    about = parquet.About("tier", (first.name, second.name))
    table = table.cast(arrow_schema())
    folder.publish(merged, lambda sink: parquet.write(sink, [table], about))
    seen = reader.survey(folder)
    assert seen.paths == [merged.path]
    assert seen.rows == 200
