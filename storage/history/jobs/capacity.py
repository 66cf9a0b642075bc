"""What offsets partitions bear over time, which groups weigh most, and how many partitions will be needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.history.jobs.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIER: Final = -1
"""In place of an offsets partition: all of them."""
COMMITS_PER_S: Final = 10_000
"""What one leader should be asked for: a third of a core (README, OffsetCommit with three copies)."""
AHEAD_DAYS: Final = 30
HOUR_S: Final = 3_600

CAPACITY = Table(
    "capacity",
    "One row for each hour and offsets partition, and one for the tier.",
    (
        Column("hour_ms", "bigint", "When the hour began."),
        Column("offsets_partition", "int", f"{TIER}: the whole tier."),
        Column("groups", "bigint", "That committed or rebalanced."),
        Column("commits", "bigint", ""),
        Column("offsets", "bigint", ""),
        Column("commits_per_s", "double", "Over the hour."),
        Column("rebalances", "bigint", "That began."),
        Column("hot_group", "string", "Which committed most."),
        Column("hot_share", "double", "Of the commits, by that group."),
    ),
)
FORECAST = Table(
    "forecast",
    f"One row for each day: the trend so far, and what it means {AHEAD_DAYS} days later.",
    (
        Column("peak_commits_per_s", "double", "Of the tier's busiest hour."),
        Column("days", "bigint", "That the trend was taken from."),
        Column("trend_per_day", "double", "By how much the peak rises a day; null for less than 3 days."),
        Column("forecast_commits_per_s", "double", f"The peak in {AHEAD_DAYS} days."),
        Column("hot_partition_share", "double", "Of the peak, borne by the busiest offsets partition."),
        Column("partitions_now", "int", f"Needed for {COMMITS_PER_S:,} commits a second each, at even load."),
        Column("partitions_ahead", "int", f"Needed in {AHEAD_DAYS} days."),
    ),
)


def capacity(hours: DataFrame, rebalances: DataFrame) -> DataFrame:
    """hours: `digest`'s; rebalances: the table."""
    from pyspark.sql import functions as f

    key = ["date", "hour_ms", "offsets_partition"]
    hour = (f.col("began_ms") - f.col("began_ms") % (HOUR_S * 1000)).alias("hour_ms")
    begun = rebalances.groupBy("date", hour, "offsets_partition", "group_id").agg(
        f.count("*").alias("rebalances")
    )
    by_group = hours.join(begun, [*key, "group_id"], "full").na.fill(0, ["commits", "offsets", "rebalances"])
    # One pass for both: a row counts for its partition and for the tier.
    places = f.explode(f.array("offsets_partition", f.lit(TIER)))
    return (
        by_group.withColumn("offsets_partition", places)
        .groupBy(key)
        .agg(
            f.count("*").alias("groups"),
            *(f.sum(name).alias(name) for name in ("commits", "offsets", "rebalances")),
            f.max_by("group_id", f.struct("commits", "group_id")).alias("hot_group"),
            f.max("commits").alias("hot"),
        )
        .withColumn("commits_per_s", f.col("commits") / HOUR_S)
        .withColumn("hot_share", f.try_divide("hot", "commits"))
        .select(*CAPACITY.names)
    )


def forecast(capacity: DataFrame) -> DataFrame:
    """capacity: the table. A day's trend is that of the seven days up to it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    is_tier = f.col("offsets_partition") == TIER
    daily = capacity.groupBy("date").agg(
        f.max(f.when(is_tier, f.col("commits_per_s"))).alias("peak_commits_per_s"),
        f.max(f.when(~is_tier, f.col("commits_per_s"))).alias("partition_peak"),
        f.unix_date("date").alias("day"),
    )
    week = Window.orderBy("day").rangeBetween(-6, 0)  # of one row a day: one task may sort them
    trend = f.regr_slope("peak_commits_per_s", "day").over(week)
    ahead = f.greatest(
        f.lit(0.0),
        f.col("peak_commits_per_s") + AHEAD_DAYS * f.coalesce("trend_per_day", f.lit(0.0)),
    )
    return (
        daily.withColumn("days", f.count("*").over(week))
        .withColumn("trend_per_day", f.when(f.col("days") >= 3, trend))
        .withColumn("forecast_commits_per_s", ahead)
        .withColumn("hot_partition_share", f.try_divide("partition_peak", "peak_commits_per_s"))
        .withColumn("partitions_now", f.ceil(f.col("peak_commits_per_s") / COMMITS_PER_S).cast("int"))
        .withColumn("partitions_ahead", f.ceil(f.col("forecast_commits_per_s") / COMMITS_PER_S).cast("int"))
        .select(*FORECAST.names)
    )
