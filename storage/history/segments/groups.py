"""Which groups a history tells of, found without Spark: a wrong name is refused at once.

The least and the greatest name of a row group are in the file's footer; names themselves are read only where
the one that is looked for may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found

NAMED_MAX: Final = 5


def others_than(folder: Folder, found: Iterable[Found], group_id: str) -> list[str] | None:
    """Return None if these segments tell of the group, else some groups that they have, most alike first."""
    known: set[str] = set()
    for each in found:
        try:
            with parquet.opened(folder, each.segment) as (file, _):
                for number in range(file.num_row_groups):
                    known |= _names(file, number, group_id)
        except (parquet.UnreadableSegment, FileNotFoundError):
            continue  # readers of its rows name it
        if group_id in known:
            return None
    alike = get_close_matches(group_id, sorted(known), NAMED_MAX, cutoff=0.5)
    return [*alike, *sorted(known - set(alike))][:NAMED_MAX]


def _names(file: pq.ParquetFile, number: int, group_id: str) -> set[str]:
    """All of a row group if the one that is looked for may be among them, else two of them at most."""
    statistics: Any = file.metadata.row_group(number).column(_leaf(file, "group_id")).statistics
    if statistics is not None and statistics.has_min_max and not statistics.min <= group_id <= statistics.max:
        return {statistics.min, statistics.max}
    names = pc.unique(parquet.row_group(file, number, ["group_id"])["group_id"])
    return {name for name in names.to_pylist() if name is not None}


def _leaf(file: pq.ParquetFile, name: str) -> int:
    """Nested columns have several leaves, so this is not the column's place in the table."""
    schema = file.schema
    return next(place for place in range(len(schema)) if schema.column(place).path == name)
