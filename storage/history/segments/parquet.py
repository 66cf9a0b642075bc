"""The inside of a segment: the table of `storage.history.schema` as Parquet, and who wrote it.

Key-value metadata: `groupd.schema.version`, `groupd.tier.id`, and in a compacted segment `groupd.replaces`,
a JSON list of the names that it stands for. Kinds that are BULK have row groups of their own. Rows of
a row group are in no order that readers may rely on.

pyarrow takes 40 MB: only processes that write or read import it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.history.schema import BULK, COLUMNS, SCHEMA_VERSION, arrow_schema
from storage.history.segments import older
from storage.history.segments.folder import Folder
from storage.history.segments.names import Segment

VERSION_KEY: Final = b"groupd.schema.version"
TIER_KEY: Final = b"groupd.tier.id"
REPLACES_KEY: Final = b"groupd.replaces"
ROW_GROUP_ROWS: Final = 128 * 1024
_DICTIONARY: Final = [column.name for column in COLUMNS if column.type == "string"]
_COUNTED: Final = {"at_ms": "DELTA_BINARY_PACKED", "sequence": "DELTA_BINARY_PACKED"}
_FOUND_BY: Final = ["at_ms", "sequence", "kind", "group_id"]
"""Columns whose least and greatest values let a reader pass row groups over."""


class UnreadableSegment(Exception):
    """Cut short, damaged, or of a schema version that is not known; says which."""


class About(NamedTuple):
    """What a segment says of itself."""

    tier_id: str
    replaces: tuple[str, ...] = ()
    """Names of segments in the same directory."""


def write(sink: Any, tables: Iterable[pa.Table], about: About) -> None:
    """Write tables of the history's schema to a path or a pyarrow stream, a row group each or more.

    Pages have checksums. What pyarrow knows beside Parquet's own schema is left out: it is half of a small
    file.
    """
    metadata = {
        VERSION_KEY: str(SCHEMA_VERSION),
        TIER_KEY: about.tier_id,
        **({REPLACES_KEY: json.dumps(about.replaces)} if about.replaces else {}),
    }
    with pq.ParquetWriter(
        sink,
        arrow_schema(),
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARY,
        column_encoding=_COUNTED,
        write_statistics=_FOUND_BY,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata(metadata)
        for table in tables:
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def apart(table: pa.Table) -> dict[bool, pa.Table]:
    """Part a table by whether its rows are BULK; each part is there if it has rows."""
    is_bulk = pc.is_in(table["kind"], pa.array(BULK))
    parts = {False: table.filter(pc.invert(is_bulk)), True: table.filter(is_bulk)}
    return {bulk: part for bulk, part in parts.items() if part.num_rows}


@contextmanager
def opened(folder: Folder, segment: Segment) -> Iterator[tuple[pq.ParquetFile, About]]:
    """A segment, its footer read and checked. Raises UnreadableSegment and OSError."""
    with folder.reading(segment) as source:
        try:
            file = pq.ParquetFile(source, page_checksum_verification=True)
        except pa.ArrowException as error:
            raise UnreadableSegment(f"cut short or no Parquet: {_first_line(error)}") from None
        with closing(file):
            yield file, _about(file.metadata.metadata or {})


def _about(metadata: Mapping[bytes, bytes]) -> About:
    version = metadata.get(VERSION_KEY, b"").decode(errors="replace")
    if version not in map(str, older.READABLE):
        said = f"schema version {version}" if version else "no schema version"
        raise UnreadableSegment(f"{said}, and up to {SCHEMA_VERSION} is read here")
    replaces = tuple(json.loads(metadata.get(REPLACES_KEY, b"[]")))
    return About(metadata.get(TIER_KEY, b"").decode(errors="replace"), replaces)


def row_group(file: pq.ParquetFile, number: int, columns: list[str] | None = None) -> pa.Table:
    """One of a segment's row groups, in this schema version. Raises UnreadableSegment and OSError."""
    try:
        table = file.read_row_group(number, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise UnreadableSegment(f"damaged in row group {number}: {_first_line(error)}") from None
    return older.brought_up(table, columns)


def give_back() -> None:
    """Give memory that tables had needed, and that nobody uses, back to the system. It takes 2.3 ms for 14 MB
    (2 cores of an AMD EPYC, a leader after 25,000 members had joined)."""
    pa.default_memory_pool().release_unused()


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
