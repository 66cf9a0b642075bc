"""Events as the jobs read them: what there is most of, commits and lag samples, is summed up on the way in.

What several jobs read again and again is kept in memory. All other events are not: to read the few columns
that a job needs from Parquet costs less than to keep all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.history.schema import BULK, KIND_NAMES, LIVES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOUR_MS: Final = 3_600_000
OTHERS: Final = tuple(sorted(KIND_NAMES - set(BULK)))
READ: Final = (
    *("at_ms", "offsets_partition", "node_id", "term", "sequence", "kind", "group_id", "group_type"),
    *("group_epoch", "member_id", "group_instance_id", "client_id", "client_host", "client_software"),
    *("cause", "rule", "reason", "joining_ms", "syncing_ms", "revoking_ms", "members", "partitions"),
    *("moved", "moves", "waited_for", "assignor", "topic", "partition", "committed_offset", "end_offset"),
    *("count", "state", "first_ms"),
)
"""Columns that the jobs look at."""

LIVES_READ: Final = (
    *("at_ms", "kind", "group_id", "member_id", "group_instance_id"),
    *("client_id", "client_host", "client_software", "cause", "date"),
)


class Digest(NamedTuple):
    """What is known of a stretch of time."""

    events: DataFrame
    """Of all other kinds, with `date`."""
    lives: DataFrame
    """Of these the LIVES, and of them LIVES_READ: to be persisted by who runs jobs."""
    hours: DataFrame
    """date, hour_ms, offsets_partition, group_id, commits, offsets, regressed, lag_max, first_ms, last_ms; to
    be persisted too."""


def digest(events: DataFrame) -> Digest:
    """The parts of a history."""
    from pyspark.sql import functions as f

    # Both are said as what they are, not as what they are not: so Parquet's dictionaries of kinds let Spark
    # pass over row groups that hold only the other part.
    hours = (
        events.where(f.col("kind").isin(*BULK))
        .groupBy(
            (f.col("at_ms") - f.col("at_ms") % HOUR_MS).alias("hour_ms"), "offsets_partition", "group_id"
        )
        .agg(
            f.sum("commits").alias("commits"),
            f.sum("offsets").alias("offsets"),
            f.sum("regressed").alias("regressed"),
            f.max("lag").alias("lag_max"),
            f.min("at_ms").alias("first_ms"),
            f.max("at_ms").alias("last_ms"),
        )
    )
    others = events.where(f.col("kind").isin(*OTHERS)).select(*READ).withColumn("date", date_of("at_ms"))
    lives = others.where(f.col("kind").isin(*LIVES)).select(*LIVES_READ)
    return Digest(others, lives, hours.withColumn("date", date_of("hour_ms")))


def date_of(column: str) -> Column:
    """The day of UTC of a time in ms; sessions run in UTC (`session`)."""
    from pyspark.sql import functions as f

    return f.to_date(f.timestamp_millis(f.col(column)))
