"""The engine for any size: Spark. Queries are translated from DuckDB's SQL."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from storage.history.jobs.engine import ALL_EVENTS, NAME, EngineError, Replayed, Row, by_overlap, paths
from storage.history.jobs.table import Table
from storage.history.schema import COLUMNS, MOVES, TEXTS
from storage.history.segments.folder import Folder
from storage.history.segments.names import Found
from storage.history.segments.older import METRICS_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES: Final = {
    "string": "string",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    MOVES: "array<struct<topic: string, partition: int, from_member: string, to_member: string>>",
    TEXTS: "array<string>",
}
SCHEMA_NAME: Final = (
    f"CASE WHEN api RLIKE '{METRICS_NAME}'"
    " THEN replace(initcap(replace(api, '_', ' ')), ' ', '') ELSE api END"
)
"""Kafka's name of a request, as `older.schema_name` has it."""
DDL: Final = ", ".join(f"`{column.name}` {TYPES[column.type]}" for column in COLUMNS)


@contextmanager
def refusals() -> Iterator[None]:
    """Spark's own errors, which have the JVM's story behind their first line, as EngineError."""
    if (
        importlib.util.find_spec("pyspark") is None
    ):  # no session will begin, and that one says what to install
        yield
        return
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise EngineError(str(error).strip().partition("\n")[0].rstrip(";")) from None


class OnSpark:
    """An `Engine`, in a session of somebody's."""

    name = "spark"
    keeps_changes = False

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: dict[str, DataFrame] = {}

    def read(self, folder: Folder, found: list[Found]) -> None:
        from pyspark.sql.functions import expr

        alone, alike = by_overlap(found)
        read = self._spark.read.schema(DDL)
        whole = read.parquet(*paths(folder, alone)) if alone else self._spark.createDataFrame([], DDL)
        if alike:
            whole = whole.unionByName(read.parquet(*paths(folder, alike)).dropDuplicates(list(NAME)))
        whole.withColumn("api", expr(SCHEMA_NAME)).createOrReplaceTempView(ALL_EVENTS)

    def define(self, name: str, query: str, *, keep: bool) -> None:
        self._know(name, self._spark.sql(translated(query)), keep=keep)

    def rows(self, query: str, limit: int | None = None) -> list[Row]:
        frame = self._spark.sql(translated(query))
        found = (frame if limit is None else frame.limit(limit)).collect()
        return [row.asDict(recursive=True) for row in found]

    def replay(self, table: Table, memberships: str, replayed: Replayed) -> None:
        """The function is sent to Spark's workers, which must be able to import it. A row is a group with all
        its turns, so that Arrow batches hold whole groups."""
        from pyspark.sql import functions as f

        days = pa.list_(pa.struct(table.arrow_fields()))

        def of_arrow(groups: pa.Array, turns: pa.Array, topics: pa.Array) -> pa.Array:
            return pa.array(replayed(groups.to_pylist(), turns.to_pylist(), topics.to_pylist()), type=days)

        frame = self._spark.sql(translated(memberships))
        made = f.arrow_udf(of_arrow, f"array<struct<{table.ddl}>>")(*frame.columns)
        names = [column.name for column in table.whole]
        found = frame.select(f.explode(made).alias("day")).select("day.*").select(*names)
        self._know(table.name, found, keep=False)

    def write(self, query: str, url: str) -> None:
        frame = self._spark.sql(translated(query))
        written = frame.repartition("date").write.partitionBy("date")  # a file a day
        written.option("compression", "zstd").parquet(url)

    def open(self, table: Table, url: str | None) -> None:
        read = self._spark.read.schema(table.ddl)
        self._know(
            table.name,
            self._spark.createDataFrame([], table.ddl) if url is None else read.parquet(url),
            keep=False,
        )

    def forget(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self._kept:
                self._kept.pop(name).unpersist()

    def _know(self, name: str, frame: DataFrame, *, keep: bool) -> None:
        from pyspark import StorageLevel

        if keep:
            self._kept[name] = frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        frame.createOrReplaceTempView(name)


def translated(query: str) -> str:
    """Translate DuckDB's SQL to Spark's; what is not DuckDB's, and commands such as SHOW TABLES, stay as
    they are."""
    import sqlglot

    try:
        [found] = sqlglot.transpile(
            query, read="duckdb", write="spark", unsupported_level=sqlglot.ErrorLevel.RAISE
        )
    except (sqlglot.errors.SqlglotError, ValueError):
        return query
    return str(found) or query
