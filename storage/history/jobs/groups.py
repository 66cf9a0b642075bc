"""Each group's day: how much of it the group was stable, why not, and what else is known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.history.jobs.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPS = Table(
    "groups",
    "One row for each group and day on which anything happened to it.",
    (
        Column("group_id", "string", ""),
        Column("group_type", "string", "Null if it only commits."),
        Column("rebalances", "bigint", "That began on this day."),
        Column("causes", "map<string, bigint>", "Rebalances by cause."),
        Column("unstable_ms", "bigint", "That these took."),
        Column("known_ms", "bigint", "From the tier's first event on this day to its last."),
        Column("availability", "double", "Share of that time in which it was stable."),
        Column("between_ms", "bigint", "From one rebalance to the next, on average; null if there is one."),
        Column("idle_member_ms", "bigint", "The bill."),
        Column("moved", "bigint", "Partitions that changed owner."),
        Column("joined", "bigint", "Members that came."),
        Column("gone", "bigint", "Members that left, expired or were fenced."),
        Column("expired", "bigint", "Of these, whose timeout passed."),
        Column("churn", "double", "Comings and goings per member there was."),
        Column("worst_client", "string", "Client id and host whose doing the dearest rebalances were."),
        Column("worst_idle_member_ms", "bigint", "Their bill."),
        Column("commits", "bigint", "OffsetCommit requests."),
        Column("commits_per_s", "double", "Over that time."),
        Column("regressed", "bigint", "Offsets that went back."),
        Column("lag_max", "bigint", "The greatest sampled."),
        Column("offsets_expired", "bigint", "Past their retention."),
        Column(
            "offsets_expiring",
            "bigint",
            "Expiries ahead: past their retention within about a day from when they were counted, unless"
            " committed again or, of an empty group, somebody comes.",
        ),
        Column("expires_ms", "bigint", "When the first of these expires."),
    ),
)


def groups(events: DataFrame, lives: DataFrame, hours: DataFrame, rebalances: DataFrame) -> DataFrame:
    """events, lives and hours: `digest`'s; rebalances: the table."""
    from pyspark.sql import functions as f

    key = ["date", "group_id"]
    commits = hours.groupBy(key).agg(
        *(f.sum(name).alias(name) for name in ("commits", "regressed")), f.max("lag_max").alias("lag_max")
    )
    parts = [commits, _bills(rebalances), _comings(lives), _expired(events)]
    found = parts[0]
    for part in parts[1:]:
        found = found.join(part, key, "full")
    found = found.join(f.broadcast(_known(events, hours)), "date")
    zeros = ("rebalances", "unstable_ms", "idle_member_ms", "moved", "joined", "gone", "expired")
    known_ms = f.greatest("known_ms", f.lit(1))
    return (
        found.na.fill(0, [*zeros, "commits", "regressed", "offsets_expired", "offsets_expiring"])
        .withColumn("availability", f.greatest(f.lit(0.0), 1 - f.col("unstable_ms") / known_ms))
        .withColumn("commits_per_s", f.col("commits") * 1000 / known_ms)
        .withColumn("churn", (f.col("joined") + f.col("gone")) / f.greatest("members", f.lit(1)))
        .select(*GROUPS.names)
    )


def _known(events: DataFrame, hours: DataFrame) -> DataFrame:
    """How much of each day is known: a tier may have started, or have been asked, at noon."""
    from pyspark.sql import functions as f

    def spans(told: DataFrame, first: str, last: str) -> DataFrame:
        return told.groupBy("date").agg(f.min(first).alias("first_ms"), f.max(last).alias("last_ms"))

    both = spans(events, "at_ms", "at_ms").unionAll(spans(hours, "first_ms", "last_ms"))
    known_ms = (f.max("last_ms") - f.min("first_ms")).alias("known_ms")
    return both.groupBy("date").agg(known_ms)


def _bills(rebalances: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    key = ["date", "group_id"]
    client = f.concat_ws("@", "client_id", "client_host")
    by_cause = rebalances.groupBy(
        *key, f.coalesce("cause", f.lit("unknown")).alias("cause"), client.alias("client")
    )
    parts = by_cause.agg(
        f.count("*").alias("rebalances"),
        f.sum("duration_ms").alias("unstable_ms"),
        f.sum("idle_member_ms").alias("idle_member_ms"),
        f.sum("moved").alias("moved"),
        f.min("began_ms").alias("first_ms"),
        f.max("began_ms").alias("last_ms"),
        f.max("members").alias("members"),
        f.max("group_type").alias("group_type"),
    )
    summed = ("rebalances", "unstable_ms", "idle_member_ms", "moved")
    by_client = parts.groupBy(*key, "client").agg(
        f.sum("idle_member_ms").alias("bill"),
        f.map_from_entries(f.collect_list(f.struct("cause", "rebalances"))).alias("causes"),
        *(f.sum(name).alias(name) for name in summed),
        f.min("first_ms").alias("first_ms"),
        f.max("last_ms").alias("last_ms"),
        f.max("members").alias("members"),
        f.max("group_type").alias("group_type"),
    )
    whole = by_client.groupBy(key).agg(
        *(f.sum(name).alias(name) for name in summed),
        f.flatten(f.collect_list(f.map_entries("causes"))).alias("entries"),
        f.max_by("client", f.struct("bill", "client")).alias("worst_client"),
        f.max("bill").alias("worst_idle_member_ms"),
        f.min("first_ms").alias("first_ms"),
        f.max("last_ms").alias("last_ms"),
        f.max("members").alias("members"),
        f.max("group_type").alias("group_type"),
    )
    between = f.expr("CASE WHEN rebalances > 1 THEN (last_ms - first_ms) div (rebalances - 1) END")
    return whole.withColumns({"between_ms": between, "causes": f.expr(CAUSES)}).drop("entries")


CAUSES = (
    "map_from_entries(transform(array_sort(array_distinct(transform(entries, e -> e.key))), c -> struct(c,"
    " aggregate(filter(entries, e -> e.key = c), 0L, (sum, e) -> sum + e.value))))"
)


def _comings(lives: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    kind = f.col("kind")
    return lives.groupBy("date", "group_id").agg(
        f.count_if(kind == "member_joined").alias("joined"),
        f.count_if(kind != "member_joined").alias("gone"),
        f.count_if(kind == "member_expired").alias("expired"),
    )


def _expired(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    told = events.where("kind IN ('offsets_expired', 'offsets_expiring')").groupBy("date", "group_id")
    ahead = f.col("kind") == "offsets_expiring"
    return told.agg(
        f.sum(f.when(~ahead, f.col("count"))).alias("offsets_expired"),
        f.sum(f.when(ahead, f.col("count"))).alias("offsets_expiring"),
        f.min(f.when(ahead, f.col("first_ms"))).alias("expires_ms"),
    )
