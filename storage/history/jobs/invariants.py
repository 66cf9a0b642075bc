"""What must never be in a history, looked for with set operations: the judge's rules over months.

Only what is known is held against anybody: ownership is forgotten where a leader's last events may be lost
(it was replaced without a word) or were dropped, and where a rebalance moved more than its row says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.history.jobs.table import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DOUBLE_OWNERSHIP: Final = "double ownership"
COMMIT_REGRESSED: Final = "commit went back"
EPOCH_FELL: Final = "epoch fell"
TWO_LEADERS: Final = "two leaders in a term"

INVARIANTS = Table(
    "invariants",
    "One row for each time that one was broken.",
    (
        Column(
            "rule", "string", f'"{DOUBLE_OWNERSHIP}", "{COMMIT_REGRESSED}", "{EPOCH_FELL}", "{TWO_LEADERS}".'
        ),
        Column("group_id", "string", "Null for leaders."),
        Column("offsets_partition", "int", ""),
        Column("at_ms", "bigint", "Since when."),
        Column("until_ms", "bigint", "Of double ownership: until when; null: no end is known."),
        Column("topic", "string", ""),
        Column("partition", "int", ""),
        Column("members", "array<string>", "Who: the first owner first."),
        Column("before", "bigint", "The offset or epoch before; of leaders, the first node."),
        Column("after", "bigint", "The offset or epoch after; of leaders, the other node."),
    ),
)
FAR: Final = 2**62


def invariants(events: DataFrame, lives: DataFrame) -> DataFrame:
    """events and lives: `digest`'s. A commit that goes back may have been asked for: it is told anyway."""
    found = [double_ownership(events, lives), _regressed(events), _fallen(events), _leaders(events)]
    whole = found[0]
    for part in found[1:]:
        whole = whole.unionByName(part, allowMissingColumns=True)
    return whole.selectExpr(
        *(f"cast({column.name} AS {column.type}) AS {column.name}" for column in INVARIANTS.columns),
        "to_date(timestamp_millis(at_ms)) AS date",
    )


PARTITION: Final = ("group_id", "topic", "partition")


def double_ownership(events: DataFrame, lives: DataFrame) -> DataFrame:
    """Intervals of ownership of one partition by several members that overlap."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    earlier = (
        Window.partitionBy(*PARTITION)
        .orderBy("from_ms", "until_ms", "member_id")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    held = f.struct("until_ms", "member_id")
    found = intervals(_doubtful(moves(events)), events, lives).withColumn("other", f.max(held).over(earlier))
    until = f.least("until_ms", "other.until_ms")
    return found.where(
        (f.col("other.until_ms") > f.col("from_ms")) & (f.col("other.member_id") != f.col("member_id"))
    ).select(
        f.lit(DOUBLE_OWNERSHIP).alias("rule"),
        *PARTITION,
        "offsets_partition",
        f.col("from_ms").alias("at_ms"),
        f.when(until < FAR, until).alias("until_ms"),
        f.array("other.member_id", "member_id").alias("members"),
    )


def moves(events: DataFrame) -> DataFrame:
    """A row for each partition that changed owner in a rebalance."""
    from pyspark.sql import functions as f

    return (
        events.where("kind = 'rebalance_ended' AND moves IS NOT NULL")
        .select(
            *("group_id", "offsets_partition", "term", "sequence", "at_ms"), f.explode("moves").alias("move")
        )
        .select("*", "move.*")
        .drop("move")
    )


def _doubtful(moved: DataFrame) -> DataFrame:
    """Of `moves` those of partitions of which some move takes from another than the one before gave to, or
    is earlier by its leader's clock: the others never had two owners, and need no closer look."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    whole = Window.partitionBy(*PARTITION)
    in_order = whole.orderBy("term", "sequence")
    is_first = f.lag("term").over(in_order).isNull()
    follows = f.col("from_member").eqNullSafe(f.lag("to_member").over(in_order)) & (
        f.col("at_ms") >= f.lag("at_ms").over(in_order)
    )
    doubt = moved.withColumn("doubt", ~(is_first | follows))
    return doubt.withColumn("doubt", f.max("doubt").over(whole)).where("doubt").drop("doubt")


def intervals(moved: DataFrame, events: DataFrame, lives: DataFrame) -> DataFrame:
    """Who had which partition from when until when (FAR: no end is known). moved: some of `moves`."""
    from pyspark.sql import functions as f

    # In the same rebalance a partition may be lost and found again: the loss comes first.
    sides = f.expr(
        "inline(array(named_struct('member_id', from_member, 'is_end', true),"
        " named_struct('member_id', to_member, 'is_end', false)))"
    )
    changed = moved.select(*PARTITION, "offsets_partition", "at_ms", sides).where("member_id IS NOT NULL")
    owned = _ended(changed, (*PARTITION, "member_id"), "lost_ms")
    return _forgotten(_left(owned, lives), events).select(
        *("group_id", "offsets_partition", "topic", "partition", "member_id"),
        f.col("at_ms").alias("from_ms"),
        f.least("lost_ms", "gone_ms", "forgotten_ms").alias("until_ms"),
    )


def _ended(rows: DataFrame, of: tuple[str, ...], name: str) -> DataFrame:
    """The rows that are no ends, with `name`: the time of the first end of the same that follows, FAR if
    there is none.

    Looked at backwards: of a window Spark sums up what has come as it goes along, but what is still to come
    anew for each row, and a big group may have thousands of ends.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    later = (
        Window.partitionBy(*of).orderBy(f.desc("at_ms"), "is_end").rowsBetween(Window.unboundedPreceding, -1)
    )
    first_ms = f.min(f.when(f.col("is_end"), f.col("at_ms"))).over(later)
    found = rows.withColumn(name, f.coalesce(first_ms, f.lit(FAR)))
    return found.where(~f.col("is_end")).drop("is_end")


def _left(owned: DataFrame, lives: DataFrame) -> DataFrame:
    """With `gone_ms`: when the member left its group."""
    from pyspark.sql import functions as f

    gone = (
        lives.where("kind <> 'member_joined'")
        .groupBy("group_id", "member_id")
        .agg(f.collect_list("at_ms").alias("gone"))
    )
    known = owned.join(gone, ["group_id", "member_id"], "left")
    return known.withColumn("gone_ms", f.expr(_first("gone", ">=")))


def _first(times: str, how: str) -> str:
    """The earliest of a column of times that is after `at_ms`, or, with ">=", at that moment."""
    return f"coalesce(array_min(filter({times}, g -> g {how} at_ms)), {FAR}L)"


def _forgotten(owned: DataFrame, events: DataFrame) -> DataFrame:
    """With `forgotten_ms`: from when on we do not know any more who owns what."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    leaders = Window.partitionBy("offsets_partition").orderBy("term", "sequence")
    told = events.where(
        "kind IN ('coordinator_elected', 'coordinator_lost', 'coordinator_moved', 'events_dropped')"
    )
    silent = (f.col("kind") == "coordinator_elected") & (f.lag("kind").over(leaders) == "coordinator_elected")
    lost = (
        told.withColumn("silent", silent)
        .where("silent OR kind = 'events_dropped'")
        .groupBy("offsets_partition")
        .agg(f.collect_list("at_ms").alias("lost"))
    )
    cut = events.where("kind = 'rebalance_ended' AND moved > coalesce(size(moves), 0)").select(
        "group_id", "at_ms", f.lit(True).alias("is_end")
    )
    both = owned.withColumn("is_end", f.lit(False)).unionByName(cut, allowMissingColumns=True)
    found = _ended(both, ("group_id",), "cut_ms").join(f.broadcast(lost), "offsets_partition", "left")
    return found.withColumn("forgotten_ms", f.least(f.expr(_first("lost", ">")), f.col("cut_ms")))


def _regressed(events: DataFrame) -> DataFrame:
    return events.where("kind = 'commit_regressed'").selectExpr(
        f"'{COMMIT_REGRESSED}' AS rule",
        *("group_id", "offsets_partition", "at_ms", "topic", "partition"),
        *("array(member_id) AS members", "end_offset AS before", "committed_offset AS after"),
    )


def _fallen(events: DataFrame) -> DataFrame:
    """A group's epoch only rises; one that was deleted may begin anew. A rebalance that ends because the
    epoch rose again names its own."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    in_order = Window.partitionBy("group_id").orderBy("term", "sequence")
    told = events.where(
        "kind = 'group_deleted' OR group_epoch IS NOT NULL"
        " AND (kind <> 'rebalance_ended' OR state IN ('Stable', 'Empty'))"
    ).withColumn("epoch", f.expr("CASE WHEN kind <> 'group_deleted' THEN group_epoch ELSE -1 END"))
    return (
        told.withColumn("before", f.lag("epoch").over(in_order))
        .where("epoch < before AND kind <> 'group_deleted'")
        .selectExpr(
            f"'{EPOCH_FELL}' AS rule",
            *("group_id", "offsets_partition", "at_ms", "array(member_id) AS members"),
            *("before", "epoch AS after"),
        )
    )


def _leaders(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    elected = events.where("kind = 'coordinator_elected'").groupBy("offsets_partition", "term")
    return (
        elected.agg(
            f.min_by("node_id", "at_ms").alias("before"),
            f.max_by("node_id", "at_ms").alias("after"),
            f.max("at_ms").alias("at_ms"),
            f.count_distinct("node_id").alias("nodes"),
        )
        .where("nodes > 1")
        .selectExpr(f"'{TWO_LEADERS}' AS rule", "offsets_partition", "at_ms", "before", "after")
    )
