"""Periods in which a group's rebalances feed each other, with the one that began it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.history.jobs.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAUSE_MS_MAX: Final = 30_000
"""A rebalance that begins so soon after the last one's end belongs to it: no consumer has got far."""
REBALANCES_MIN: Final = 5
"""A member's restart is two."""

STORMS = Table(
    "storms",
    f"{REBALANCES_MIN} or more rebalances in a row, each within {PAUSE_MS_MAX // 1000} s of the last one.",
    (
        Column("group_id", "string", ""),
        Column("began_ms", "bigint", "Of the first rebalance."),
        Column("ended_ms", "bigint", "Of the last one; null if that did not end."),
        Column("rebalances", "int", ""),
        Column("cause", "string", "The origin: why the first one began."),
        Column("member_id", "string", "The origin: whose doing it was."),
        Column("client_id", "string", "The origin's."),
        Column("client_host", "string", "The origin's."),
        Column("reason", "string", "The origin's own words."),
        Column("causes", "map<string, bigint>", "Of all of its rebalances."),
        Column("triggers", "int", "Members whose doing they were."),
        Column("unstable_ms", "bigint", "Of that time not stable."),
        Column("idle_member_ms", "bigint", "The bill."),
    ),
)


def storms(rebalances: DataFrame) -> DataFrame:
    """rebalances: the table."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy("group_id").orderBy("began_ms")
    calm = f.col("began_ms") - f.lag("ended_ms").over(in_order) > PAUSE_MS_MAX
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = rebalances.withColumn("calm", f.coalesce(calm, f.lit(False)).cast("int")).withColumn(
        "number", f.sum("calm").over(so_far)
    )
    # Most rebalances are in no storm: to count them costs little, to sum them up much.
    alike = ("group_id", "number")
    many = f.count("*").over(Window.partitionBy(*alike)) >= REBALANCES_MIN
    origin = ("cause", "member_id", "client_id", "client_host", "reason")
    cause = f.coalesce("cause", f.lit("unknown"))
    return (
        numbered.withColumn("many", many)
        .where("many")
        .withColumn("causes_one", cause)
        .groupBy(*alike)
        .agg(
            f.min("began_ms").alias("began_ms"),
            f.max_by("ended_ms", "began_ms").alias("ended_ms"),
            f.count("*").cast("int").alias("rebalances"),
            *(f.min_by(name, "began_ms").alias(name) for name in origin),
            f.array_sort(f.collect_list("causes_one")).alias("all_causes"),
            f.count_distinct("member_id").cast("int").alias("triggers"),
            f.sum("duration_ms").alias("unstable_ms"),
            f.sum("idle_member_ms").alias("idle_member_ms"),
        )
        .withColumn("causes", f.expr(COUNTED))
        .withColumn("date", f.to_date(f.timestamp_millis("began_ms")))
        .select(*STORMS.names)
    )


COUNTED: Final = (
    "map_from_entries(transform(array_distinct(all_causes),"
    " c -> struct(c, cast(size(filter(all_causes, x -> x = c)) AS bigint))))"
)
