"""Which engine answers: DuckDB in this process while it handles so many events well, Spark beyond."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, NamedTuple

from storage.history.jobs.embedded import embedded
from storage.history.jobs.engine import Engine
from storage.history.jobs.session import MASTER, MEMORY, SparkMissing
from storage.history.segments.folder import Folder

ROWS_MAX: Final = 20_000_000
"""Events that are read embedded unless told otherwise: measured in storage/history/README.md."""


class Kind(StrEnum):
    """What `--engine` takes."""

    AUTO = "auto"
    SPARK = "spark"
    DUCKDB = "duckdb"


class Asked(NamedTuple):
    """How to work."""

    kind: Kind = Kind.AUTO
    master: str = MASTER
    """The master that Spark is started with."""
    memory: str = MEMORY
    """Memory of DuckDB, on Spark in all tasks of a process together; and of Spark's driver."""
    progress: bool = False
    """A bar on standard error for what takes Spark long."""
    threads: int | None = None
    """Threads of DuckDB; None: as many as there are processors."""


@contextmanager
def engine(
    asked: Asked, folder: Folder, rows: int, size_bytes: int, say: Callable[[str], None] = lambda _: None
) -> Iterator[Engine]:
    """An engine for so many events and bytes of segments. Raises SparkMissing, DuckDbMissing, EngineError."""
    if _is_embedded(asked.kind, rows, say):
        with embedded(folder.url, asked.memory, asked.threads) as found:
            yield found
        return
    from storage.history.jobs.on_spark import OnSpark, refusals
    from storage.history.jobs.session import require_connector, session

    starting = session(asked.master, asked.memory, size_bytes=size_bytes, progress=asked.progress)
    with refusals(), starting as spark:
        require_connector(spark, folder.url)
        yield OnSpark(spark)


def _is_embedded(kind: Kind, rows: int, say: Callable[[str], None]) -> bool:
    if kind is not Kind.AUTO:
        return kind is Kind.DUCKDB
    if rows <= ROWS_MAX:
        return True
    from storage.history.jobs.session import require_spark

    try:
        require_spark()
    except SparkMissing as missing:
        say(f"{rows:,} events are many for DuckDB, and Spark cannot run ({missing}): this may take a while")
        return True
    return False
