"""The made-up histories: the same seed gives the same, whole and in order."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from storage.history.generator.plan import plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import segments, write
from storage.history.schema import KIND_NAMES
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all

SPEC = Spec(seed=3, events=9_000, days=2, groups=12, restarts_per_day=12)


def test_the_same_seed_gives_the_same_history() -> None:
    one, two = (pa.concat_tables(table for _, table in segments(plan(SPEC))) for _ in range(2))
    assert one.equals(two)
    other = pa.concat_tables(table for _, table in segments(plan(SPEC._replace(seed=4))))
    assert not one.equals(other)


def test_every_event_is_read_back_with_a_name_of_its_own(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    count = write(plan(SPEC), folder)
    table, skipped = read_all(folder)
    assert skipped == []
    assert table.num_rows == count
    names = table.select(["offsets_partition", "term", "sequence"]).group_by(
        ["offsets_partition", "term", "sequence"]
    )
    assert names.aggregate([]).num_rows == count
    assert set(pc.unique(table["kind"]).to_pylist()) <= KIND_NAMES


def test_a_leaders_sequence_has_no_gap() -> None:
    table = pa.concat_tables(table for _, table in segments(plan(SPEC)))
    leaders = table.group_by(["offsets_partition", "term"]).aggregate(
        [("sequence", "min"), ("sequence", "max"), ("sequence", "count")]
    )
    assert leaders.num_rows > SPEC.offsets_partitions, "somebody was to be replaced"
    for row in leaders.to_pylist():
        assert row["sequence_min"] == 0
        assert row["sequence_max"] + 1 == row["sequence_count"]
