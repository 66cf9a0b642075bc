"""The embedded engine: DuckDB in this process; what is too much for memory goes to a temporary directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from storage.history.jobs import definitions
from storage.history.jobs.definitions import KNOWN, OF_GROUPS, OF_TIER, PARTS, SUMS, Definition
from storage.history.jobs.engine import (
    ALL_EVENTS,
    NAME,
    EngineError,
    Making,
    Replayed,
    Row,
    as_rows,
    by_overlap,
    literal,
    paths,
)
from storage.history.jobs.table import DUCKDB_TYPES, Table
from storage.history.jobs.what_if import WHAT_IF
from storage.history.period import Period
from storage.history.schema import COLUMNS, MOVES, TEXTS
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found
from storage.history.segments.older import METRICS_NAME

if TYPE_CHECKING:
    import duckdb

MEMORY: Final = "2g"
TYPES: Final = {
    "string": "VARCHAR",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    MOVES: "STRUCT(topic VARCHAR, partition INTEGER, from_member VARCHAR, to_member VARCHAR)[]",
    TEXTS: "VARCHAR[]",
}
SCHEMA_NAME: Final = (
    f"CASE WHEN regexp_matches(api, '{METRICS_NAME}') THEN array_to_string("
    "[upper(part[1]) || part[2:] for part in string_split(api, '_')], '') ELSE api END"
)
"""Kafka's name of a request, as `older.schema_name` has it."""
GROUPS_AT_ONCE: Final = 1_000
"""How many groups are replayed at once."""
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class DuckDbMissing(Exception):
    """DuckDB is not installed; says how to."""


@contextmanager
def embedded(url: str, memory: str = MEMORY, threads: int | None = None) -> Iterator[Embedded]:
    """`url`: of the history, which may be in any file system that fsspec knows. Raises DuckDbMissing, and
    EngineError for what DuckDB refuses."""
    try:
        import duckdb
    except ImportError:
        raise DuckDbMissing("duckdb is not installed: pip install duckdb") from None
    with tempfile.TemporaryDirectory(prefix="groupd-history-") as directory:
        settings: dict[str, Any] = {
            "memory_limit": memory,
            "temp_directory": directory,
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            **({} if threads is None else {"threads": threads}),
        }
        with duckdb.connect(config=settings) as connection:
            filesystem, _ = fsspec.url_to_fs(url)
            if not isinstance(filesystem, LocalFileSystem):
                connection.register_filesystem(filesystem)
            try:
                yield Embedded(connection)
            except duckdb.OutOfMemoryException as error:
                raise EngineError(
                    f"{memory} are too little for DuckDB (--memory): {_first_line(error)}"
                ) from None
            except duckdb.Error as error:
                raise EngineError(_first_line(error)) from None


class Embedded:
    """An `Engine`."""

    name = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._kinds: dict[str, str] = {}

    def read(self, folder: Folder, found: list[Found]) -> None:
        alone, alike = by_overlap(found)
        parts = [_parquet(paths(folder, alone))] if alone else []
        if alike:
            parts.append(f"SELECT DISTINCT ON ({', '.join(NAME)}) * FROM ({_parquet(paths(folder, alike))})")
        columns = ", ".join(f'NULL::{TYPES[each.type]} AS "{each.name}"' for each in COLUMNS)
        query = " UNION ALL BY NAME ".join([f"SELECT {columns} WHERE false", *parts])
        self.define(ALL_EVENTS, f"SELECT * REPLACE ({SCHEMA_NAME} AS api) FROM ({query})", keep=False)

    def define(self, name: str, query: str, *, keep: bool = False) -> None:
        """`keep`: it is made once, not each time that it is read."""
        kind = "TABLE" if keep else "VIEW"
        # Made beside what there is, which it may read.
        self._connection.execute(f'CREATE {kind} "{name} anew" AS {query}')
        if name in self._kinds:
            self._connection.execute(f'DROP {self._kinds[name]} "{name}"')
        self._connection.execute(f'ALTER {kind} "{name} anew" RENAME TO "{name}"')
        self._kinds[name] = kind

    def rows(self, query: str, limit: int | None = None) -> list[Row]:
        answer = self._connection.execute(query)
        if answer.description is None:
            return []
        names = [column[0] for column in answer.description]
        return as_rows(names, answer.fetchall() if limit is None else answer.fetchmany(limit))

    def look(self, counted: Period, given: Mapping[str, str] = NOTHING) -> bool:
        """`given`: queries of parts that are not made of these events alone."""
        for part in PARTS:
            query = given.get(part.name) or definitions.query(part.name, counted)
            self.define(part.name, query, keep=part.is_read_often)
        return bool(self.rows(f"SELECT date FROM {KNOWN}", 1))

    def make(self, making: Making) -> None:
        self.make_of_groups(making)
        self.make_of_tier(making)

    def make_of_groups(self, making: Making) -> None:
        """Make the tables that need no other offsets partition's, and SUMS."""
        self._define(OF_GROUPS, making)
        self._define(SUMS, making)
        if making.replayed is not None:
            self._replay(WHAT_IF, definitions.query("memberships", making.counted), making.replayed)

    def make_of_tier(self, making: Making) -> None:
        """Make the tables of the tier, of SUMS."""
        self._define(OF_TIER, making)

    def write(self, table: Table, days: Period | None, url: str) -> None:
        """`days`: None for all."""
        query = f"SELECT * FROM {table.name}"
        if days is not None:
            query += f" WHERE date BETWEEN DATE '{days.first}' AND DATE '{days.last}'"
        self._copy(query, url, how="PARTITION_BY (date), ")

    def write_plain(self, name: str, url: str) -> None:
        """Write a relation as one file into a folder that is not there yet."""
        self._copy(f"SELECT * FROM {name}", url, "/all.parquet")

    def read_plain(self, name: str, urls: Sequence[str]) -> None:
        """Let a name mean what was written into these folders."""
        listed = ", ".join(literal(f"{url}/all.parquet") for url in urls)
        self.define(name, f"SELECT * FROM read_parquet([{listed}], hive_partitioning=false)", keep=True)

    def open(self, table: Table, url: str | None) -> None:
        self.open_all(table, [] if url is None else [url])

    def open_all(self, table: Table, urls: Sequence[str]) -> None:
        """Let a table's name mean what is in these folders together."""
        nothing = ", ".join(f'NULL::{DUCKDB_TYPES[each.type]} AS "{each.name}"' for each in table.whole)
        query = f"SELECT {nothing} WHERE false"
        if urls:
            patterns = ", ".join(literal(f"{url}/date=*/*.parquet") for url in urls)
            files = f"read_parquet([{patterns}], hive_partitioning=true, union_by_name=true)"
            # A column that was added since is null in what was made before.
            query = table.cast(f"{query} UNION ALL BY NAME SELECT * FROM {files}")
        self.define(table.name, query, keep=False)

    def forget(self) -> None:
        """All is gone with the connection."""

    def _define(self, made: Sequence[Definition], making: Making) -> None:
        for each in made:
            query = definitions.query(each.name, making.counted)
            self.define(each.name, query, keep=making.keeps_all or each.is_read_often)

    def _replay(self, table: Table, memberships: str, replayed: Replayed) -> None:
        """Let a table be the rows that a function makes of each row of a query."""
        import pyarrow as pa

        self.open(table, None)
        self.define(table.name, f"SELECT * FROM {table.name}", keep=True)
        schema = pa.schema(table.arrow_fields())
        reading = self._connection.cursor().execute(memberships)
        while groups := reading.fetchmany(GROUPS_AT_ONCE):
            made = [row for rows in replayed(*map(list, zip(*groups, strict=True))) for row in rows]
            self._connection.register("made", pa.Table.from_pylist(made, schema=schema))
            self._connection.execute(f"INSERT INTO {table.name} SELECT * FROM made")
            self._connection.unregister("made")

    def _copy(self, query: str, url: str, name: str = "", how: str = "") -> None:
        filesystem, root = fsspec.url_to_fs(url)
        filesystem.makedirs(root, exist_ok=True)
        to = f"{literal(url + name)} (FORMAT parquet, {how}COMPRESSION zstd)"
        self._connection.execute(f"COPY ({query}) TO {to}")


def _parquet(files: Sequence[str]) -> str:
    """A column that only some of the files have is null in the others."""
    listed = ", ".join(map(literal, files))
    return f"SELECT * FROM read_parquet([{listed}], hive_partitioning=false, union_by_name=true)"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
