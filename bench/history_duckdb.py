"""The tables of history, written by hand for DuckDB: what Spark is measured against, and checked with.

Each statement says what the job of the same name in `storage.history.jobs` does, in the way DuckDB does it
best. Whole histories only: no period, no idempotence, no late events.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

SQL: Final = Path(__file__).with_name("history_sql")
"""A file for each table, and `hours`, which several are made of."""
QUERIES: Final = (
    *("rebalances", "storms", "groups", "members"),
    *("clients", "capacity", "forecast", "invariants"),
)
"""In the order in which they read each other."""


def make(history: Path, out: Path, threads: int, memory: str) -> None:
    """All tables of a history as Parquet below `out`."""
    import duckdb

    with duckdb.connect(config={"threads": threads, "memory_limit": memory}) as connection:
        connection.execute("SET preserve_insertion_order = false")
        source = f"read_parquet('{history}/date=*/*/*.parquet', hive_partitioning=false)"
        connection.execute(f"CREATE VIEW events AS FROM {source}")
        connection.execute("CREATE TEMP TABLE lives AS FROM events WHERE kind NOT IN ('commits', 'lag')")
        for name in ("hours", *QUERIES):
            query = (SQL / f"{name}.sql").read_text(encoding="utf-8")
            connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
        for name in QUERIES:
            to = f"'{out}/{name}' (FORMAT parquet, PARTITION_BY date, COMPRESSION zstd, OVERWRITE true)"
            connection.execute(f"COPY {name} TO {to}")


def summary(connection: Any, folder: Path, name: str) -> tuple[Any, ...]:
    """Of a table on disk, whoever made it: rows, and the sums of `SUMMED`."""
    source = f"read_parquet('{folder}/{name}/*/*.parquet', hive_partitioning=true)"
    sums = ", ".join(f'sum("{each}"::HUGEINT)' for each in SUMMED[name])
    return tuple(connection.execute(f"SELECT count(*), {sums} FROM {source}").fetchone())  # noqa: S608


SUMMED: Final = {
    "rebalances": (
        "began_ms",
        "ended_ms",
        "idle_member_ms",
        "unowned_partition_ms",
        "moved",
        "began_again",
        "terms",
    ),
    "storms": ("began_ms", "ended_ms", "rebalances", "triggers", "unstable_ms", "idle_member_ms"),
    "groups": (
        "rebalances",
        "unstable_ms",
        "between_ms",
        "worst_idle_member_ms",
        "gone",
        "commits",
        "lag_max",
        "offsets_expired",
        "offsets_expiring",
        "expires_ms",
    ),
    "members": (
        "joined",
        "short_lives",
        "missed_rebalances",
        "triggered",
        "waited_ms",
        "is_flapping",
        "is_slow",
    ),
    "clients": ("groups", "clients", "flapping", "slow", "triggered", "waited_ms"),
    "capacity": ("hour_ms", "offsets_partition", "groups", "commits", "offsets", "rebalances"),
    "forecast": ("days", "partitions_now", "partitions_ahead"),
    "invariants": ("at_ms", "until_ms", "before", "after"),
}
"""Columns whose sums must agree."""
