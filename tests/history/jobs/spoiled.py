"""Made-up histories as real ones are: a split in the middle, segments told twice and in pieces."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage.history.generator.plan import Plan
from storage.history.generator.write import segments
from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment

SPLIT_TERM = 1
"""A partition that a split made begins its terms anew: its events come after those of higher terms."""


def spoil(plan: Plan, folder: Folder) -> None:
    """Write a history of which half of each offsets partition's groups have moved to another at half time.
    Of every third segment a part is there twice, under another name."""
    spec = plan.spec
    half_ms = spec.first_ms + spec.days * 43_200_000
    sequence = 0
    for number, (segment, table) in enumerate(segments(plan)):
        for one, rows in _split(segment, table, half_ms, spec.offsets_partitions):
            if one.offsets_partition >= spec.offsets_partitions:
                one = one._replace(first_sequence=sequence, last_sequence=sequence + rows.num_rows - 1)
                rows = _with(rows, "sequence", range(sequence, sequence + rows.num_rows))
                sequence += rows.num_rows
            for told in _again(one, rows) if number % 3 == 0 else [(one, rows)]:
                _publish(folder, *told)


def _split(
    segment: Segment, table: pa.Table, half_ms: int, partitions: int
) -> Iterator[tuple[Segment, pa.Table]]:
    moved = pa.array(
        [
            at_ms >= half_ms and group_id is not None and zlib.crc32(group_id.encode()) % 2 == 1
            for at_ms, group_id in zip(table["at_ms"].to_pylist(), table["group_id"].to_pylist(), strict=True)
        ]
    )
    stays, goes = table.filter(pc.invert(moved)), table.filter(moved)
    if stays.num_rows:
        yield _named(segment, stays), stays
    if goes.num_rows:
        child = segment.offsets_partition + partitions
        goes = _with(goes, "offsets_partition", [child] * goes.num_rows)
        goes = _with(goes, "term", [SPLIT_TERM] * goes.num_rows)
        yield _named(segment, goes)._replace(offsets_partition=child, term=SPLIT_TERM), goes


def _again(segment: Segment, rows: pa.Table) -> Iterator[tuple[Segment, pa.Table]]:
    """Give the whole, and its second half."""
    yield segment, rows
    half = rows.slice(rows.num_rows // 2)
    yield _named(segment, half), half


def _named(segment: Segment, rows: pa.Table) -> Segment:
    sequences = rows["sequence"]
    return segment._replace(
        first_at_ms=pc.min(rows["at_ms"]).as_py(),
        first_sequence=pc.min(sequences).as_py(),
        last_sequence=pc.max(sequences).as_py(),
    )


def _with(rows: pa.Table, name: str, values: Any) -> pa.Table:
    field = rows.schema.field(name)
    return rows.set_column(rows.schema.get_field_index(name), field, pa.array(list(values), field.type))


def _publish(folder: Folder, segment: Segment, rows: pa.Table) -> None:
    about = parquet.About("made-up")
    folder.publish(segment, lambda sink: parquet.write(sink, parquet.apart(rows).values(), about))
