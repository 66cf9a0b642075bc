"""The engine for any size: Spark. Queries are translated from DuckDB's SQL."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from storage.history.jobs import definitions
from storage.history.jobs.definitions import PARTS
from storage.history.jobs.engine import ALL_EVENTS, NAME, EngineError, Making, Row, by_overlap, paths
from storage.history.jobs.folding import Folding, Workers, write
from storage.history.jobs.session import MEMORY
from storage.history.jobs.staged import Staged
from storage.history.jobs.store import tables_url
from storage.history.jobs.table import Table
from storage.history.jobs.tables import MADE, TABLES
from storage.history.period import Period
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
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise EngineError(str(error).strip().partition("\n")[0].rstrip(";")) from None


class OnSpark:
    """An `Engine`, in a session of somebody's. Tables are made by tasks that know nothing of Spark (`fold`);
    Spark itself reads them, and events, when it is asked a query, and not before: to plan its first query
    takes it seconds."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pending: dict[str, Callable[[], DataFrame]] = {}
        """What names shall mean as soon as a query is asked, in the order in which they were given."""
        self._folder = Folder("/")
        self._found: list[Found] = []
        self._folding: Folding | None = None
        self._staged: Staged | None = None

    def read(self, folder: Folder, found: list[Found]) -> None:
        self._folder, self._found = folder, found
        self._mean(ALL_EVENTS, lambda: self._events(folder, found))

    def define(self, name: str, query: str) -> None:
        self._mean(name, lambda: self._spark.sql(translated(query)))

    def rows(self, query: str, limit: int | None = None) -> list[Row]:
        while self._pending:
            name = next(iter(self._pending))
            self._pending.pop(name)().createOrReplaceTempView(name)
        frame = self._spark.sql(translated(query))
        found = (frame if limit is None else frame.limit(limit)).collect()
        return [row.asDict(recursive=True) for row in found]

    def look(self, counted: Period) -> bool:
        for part in PARTS:  # for who asks for them: tables are made without Spark's
            self.define(part.name, definitions.query(part.name, counted))
        self._folding = Folding(self._workers(), self._folder, self._found)
        return self._folding.look(counted)

    def make(self, making: Making) -> None:
        assert self._folding is not None, "what tables are made of was not looked at"
        self._staged = staged = Staged(self._staging())
        self._folding.make(making, staged)
        for table in MADE if making.replayed is None else TABLES:
            self._mean(table.name, partial(self._table, table, staged))

    def write(self, table: Table, days: Period, url: str) -> None:
        assert self._staged is not None, "no table was made"
        write(self._staged, table, days, url)

    def open(self, table: Table, url: str | None) -> None:
        def frame() -> DataFrame:
            if url is None:
                return self._spark.createDataFrame([], table.ddl)
            return self._spark.read.schema(table.ddl).parquet(url)

        self._mean(table.name, frame)

    def forget(self) -> None:
        if self._staged is not None:
            self._staged.remove()
        self._staged = self._folding = None

    def _mean(self, name: str, frame: Callable[[], DataFrame]) -> None:
        self._pending.pop(name, None)
        self._pending[name] = frame

    def _events(self, folder: Folder, found: list[Found]) -> DataFrame:
        from pyspark.sql.functions import expr

        alone, alike = by_overlap(found)
        read = self._spark.read.schema(DDL)
        whole = read.parquet(*paths(folder, alone)) if alone else self._spark.createDataFrame([], DDL)
        if alike:
            whole = whole.unionByName(read.parquet(*paths(folder, alike)).dropDuplicates(list(NAME)))
        return whole.withColumn("api", expr(SCHEMA_NAME))

    def _table(self, table: Table, staged: Staged) -> DataFrame:
        folders = staged.folders(table.name)
        if not folders:
            return self._spark.createDataFrame([], table.ddl)
        reader = self._spark.read.schema(table.ddl).option("basePath", f"{staged.url}/{table.name}")
        return reader.parquet(*folders).select(*(column.name for column in table.whole))

    def _workers(self) -> Workers:
        """Spark's, as many as there are cores."""
        context = self._spark.sparkContext
        together = (
            context.defaultParallelism if self._is_local() else int(self._conf("spark.executor.cores", "1"))
        )

        def call(work: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
            return list(context.parallelize(tasks, len(tasks)).map(work).collect())

        return Workers(call, context.defaultParallelism, together, self._conf("spark.driver.memory", MEMORY))

    def _staging(self) -> str:
        """A folder that every task can write into."""
        if self._is_local():
            return tempfile.mkdtemp(prefix="groupd-history-")
        return f"{tables_url(self._folder.url)}/.made-{uuid4().hex}"

    def _is_local(self) -> bool:
        return str(self._spark.sparkContext.master).startswith("local")

    def _conf(self, name: str, otherwise: str) -> str:
        return str(self._spark.sparkContext.getConf().get(name, otherwise))


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
