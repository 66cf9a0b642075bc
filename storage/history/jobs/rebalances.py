"""One row for each rebalance: why, whose doing, how long, what it cost.

A rebalance goes from the first `rebalance_began` after the group was last stable to the `rebalance_ended`
that follows, even under another leader. A consumer group whose epoch rises meanwhile ends one rebalance and
begins the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.history.jobs.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REBALANCES = Table(
    "rebalances",
    "One row for each rebalance, by the day on which it began.",
    (
        Column("group_id", "string", ""),
        Column("group_type", "string", '"classic" or "consumer".'),
        Column("offsets_partition", "int", "Whose leader saw it begin."),
        Column("began_ms", "bigint", "Unix time."),
        Column("ended_ms", "bigint", "Null: it did not end while events are known."),
        Column("group_epoch", "int", "That it ended with."),
        Column("cause", "string", "Of its first beginning."),
        Column("rule", "string", "Row of the rule that decided."),
        Column("reason", "string", "In the member's own words."),
        Column("member_id", "string", "Whose doing it was."),
        Column("client_id", "string", "That member's."),
        Column("client_host", "string", "That member's."),
        Column("client_software", "string", "That member's."),
        Column("began_again", "int", "How often it began anew before it ended."),
        Column("terms", "int", "Leaders it took: more than 1 if one was lost meanwhile."),
        Column("duration_ms", "bigint", "From began_ms to ended_ms."),
        Column(
            "delayed_ms",
            "bigint",
            "Before it: how long the first join or leave waited for more, to be taken together.",
        ),
        Column("joining_ms", "bigint", "Of that, waiting for members to join, or for the target."),
        Column("syncing_ms", "bigint", "Of that, waiting for the assignment, or for members to take it."),
        Column("revoking_ms", "bigint", "Of that, until the last partition to be given up was free."),
        Column("members", "int", "At its end."),
        Column("partitions", "int", "Assigned at its end."),
        Column("moved", "int", "Partitions that changed owner."),
        Column("waited_for", "array<string>", "Members that came last or not at all."),
        Column("stops_all", "boolean", "Nobody works meanwhile: classic, unless cooperative."),
        Column("idle_member_ms", "bigint", "The bill: members without work, times how long."),
        Column("unowned_partition_ms", "bigint", "Partitions nobody worked on, times how long; at most."),
    ),
)
COOPERATIVE = "cooperative"
"""In the name of a protocol: its members work on what they keep (KIP-429)."""


def rebalances(events: DataFrame) -> DataFrame:
    """events: `digest`'s."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    told = events.where(f.col("kind").isin("rebalance_delayed", "rebalance_began", "rebalance_ended"))
    is_end = f.col("kind") == "rebalance_ended"
    is_begin = f.col("kind") == "rebalance_began"
    before = (
        Window.partitionBy("group_id").orderBy("term", "sequence").rowsBetween(Window.unboundedPreceding, -1)
    )
    numbered = told.withColumn("number", f.coalesce(f.sum(is_end.cast("int")).over(before), f.lit(0)))
    order = f.struct("term", "sequence")
    began = [
        f.min_by(f.when(is_begin, f.struct(*BEGAN)), f.when(is_begin, order)).alias("began"),
        f.min(f.when(~is_begin & ~is_end, f.col("at_ms"))).alias("delayed_since_ms"),
        f.count_if(is_begin).alias("times"),
        f.count_distinct(f.when(is_begin | is_end, f.col("term"))).alias("terms"),
    ]
    ended = f.max_by(f.when(is_end, f.struct(*ENDED)), f.when(is_end, order)).alias("ended")
    found = numbered.groupBy("group_id", "number").agg(*began, ended).where("began IS NOT NULL")
    return _billed(found)


BEGAN = (
    *("at_ms", "group_type", "offsets_partition", "cause", "rule", "reason"),
    *("member_id", "client_id", "client_host", "client_software"),
)
ENDED = (
    *("at_ms", "group_epoch", "joining_ms", "syncing_ms", "revoking_ms"),
    *("members", "partitions", "moved", "waited_for", "assignor", "moves"),
)


def _billed(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    duration = "ended.at_ms - began.at_ms"
    delayed = "began.at_ms - delayed_since_ms"
    stops = f"began.group_type = 'classic' AND coalesce(ended.assignor NOT LIKE '%{COOPERATIVE}%', true)"
    # Who gets a partition waits for it; the others work on. Of one cut to MOVES_MAX that is a lower bound.
    takers = "filter(transform(ended.moves, m -> m.to_member), m -> m IS NOT NULL)"
    takers = f"coalesce(size(array_distinct({takers})), 0)"
    columns = {
        "began_ms": "began.at_ms",
        "ended_ms": "ended.at_ms",
        "began_again": "cast(times - 1 AS int)",
        "terms": "cast(terms AS int)",
        "duration_ms": duration,
        "delayed_ms": delayed,
        "stops_all": stops,
        "idle_member_ms": f"if({stops}, ended.members, {takers}) * ({duration})",
        # While it is delayed, only partitions of those who left are idle: they move.
        "unowned_partition_ms": f"if({stops}, ended.partitions, ended.moved) * ({duration})"
        f" + coalesce(ended.moved * ({delayed}), 0)",
        "date": "to_date(timestamp_millis(began.at_ms))",
        "group_id": "group_id",
    }
    columns |= {name: f"began.{name}" for name in BEGAN[1:]}
    columns |= {name: f"ended.{name}" for name in ENDED[1:9]}
    return found.select(*(f.expr(columns[name]).alias(name) for name in REBALANCES.names))
