"""Histories of a few events, as rows: the tests' way to write down what a leader saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage.history.schema import SCHEMA_VERSION, arrow_schema
from storage.history.segments import parquet
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment

ALWAYS = {"offsets_partition": 3, "node_id": 1, "term": 1, "version": SCHEMA_VERSION}


def told(directory: Path, rows: Sequence[dict[str, Any]]) -> Folder:
    """A segment of these events, in the order in which they are told."""
    folder = Folder(str(directory / "history"))
    whole = [{**ALWAYS, "sequence": number, **row} for number, row in enumerate(rows)]
    table = pa.Table.from_pylist(whole, schema=arrow_schema())
    segment = Segment(3, min(row["at_ms"] for row in whole), 1, 0, len(rows))
    folder.publish(segment, lambda sink: parquet.write(sink, [table], parquet.About("tier")))
    return folder
