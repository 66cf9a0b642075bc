"""Each consumer's day: does it flap, is it slow, does it not follow rebalances?

A consumer is known by its instance id, else by client id and host: its member ids change with every life.
What a day says depends on that day and the one before, so that a day made anew says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.history.jobs.table import Column, Table
from storage.history.schema import GONE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHORT_LIFE_MS: Final = 600_000
FLAPS_MIN: Final = 6
"""Short lives on a day."""
SLOW_MS: Final = 5_000
SLOW_REBALANCES_MIN: Final = 3
"""That took longer than SLOW_MS, and waited for it."""
SLOW_SHARE: Final = 0.5
"""Of the group's long rebalances on that day."""

MEMBERS = Table(
    "members",
    "One row for each consumer and day on which it came, went or was waited for.",
    (
        Column("group_id", "string", ""),
        Column("client", "string", "Instance id, else client id and host."),
        Column("client_id", "string", ""),
        Column("client_host", "string", ""),
        Column("client_software", "string", "The last seen."),
        Column("joined", "bigint", "Lives that began."),
        Column("left", "bigint", "Lives that ended of its own will."),
        Column("expired", "bigint", "Lives that a timeout ended."),
        Column("fenced", "bigint", "Lives that ended because another took its place."),
        Column(
            "short_lives", "bigint", f"Of those that ended, shorter than {SHORT_LIFE_MS // 60_000} minutes."
        ),
        Column(
            "missed_rebalances",
            "bigint",
            "Times it expired although its session had not ended: it did not follow a rebalance.",
        ),
        Column("triggered", "bigint", "Rebalances that were its doing."),
        Column("waited_for", "bigint", "Rebalances that waited for it."),
        Column("waited_ms", "bigint", "How long these took."),
        Column("waited_long", "bigint", f"Of these, longer than {SLOW_MS // 1000} s."),
        Column("is_flapping", "boolean", f"At least {FLAPS_MIN} short lives."),
        Column(
            "is_slow",
            "boolean",
            f"At least {SLOW_REBALANCES_MIN} long rebalances, and half of them, waited for it.",
        ),
        Column("is_stuck", "boolean", "It missed a rebalance and had no other life since."),
    ),
)
BY_CLIENT = Table(
    "clients",
    "One row for each host and client software and day.",
    (
        Column("client_host", "string", ""),
        Column("client_software", "string", ""),
        Column("groups", "bigint", "In which it has consumers."),
        Column("clients", "bigint", "Consumers."),
        Column("flapping", "bigint", "Of these."),
        Column("slow", "bigint", "Of these."),
        Column("stuck", "bigint", "Of these."),
        Column("triggered", "bigint", "Rebalances that were their doing."),
        Column("expired", "bigint", ""),
        Column("waited_ms", "bigint", ""),
    ),
)
MISSED_CAUSES: Final = (
    *("rebalance timeout", "did not rejoin in time"),
    *("did not join in time", "did not sync in time"),
)
"""Of expiries of members whose session had not ended: a KIP-848 member did not revoke (M16), a classic one
did not join or sync (C13, C16). In the coordinator's words, to which a test holds them."""


def members(lives: DataFrame, rebalances: DataFrame) -> DataFrame:
    """lives: `digest`'s; rebalances: the table."""
    from pyspark.sql import functions as f

    key = ["date", "group_id", "client"]
    lives = _of_consumers(lives)
    found = (
        _lived(lives)
        .join(_triggered(rebalances, lives), key, "full")
        .join(_waited(rebalances, lives), key, "full")
    )
    counts = [column.name for column in MEMBERS.columns if column.type == "bigint"]
    found = found.na.fill(0, counts).na.fill(False, ["is_stuck"])
    slow = (f.col("waited_long") >= SLOW_REBALANCES_MIN) & (
        f.col("waited_long") >= SLOW_SHARE * f.col("long")
    )
    names = lives.groupBy("group_id", "client").agg(
        *(f.max_by(name, "at_ms").alias(name) for name in ("client_id", "client_host", "client_software"))
    )
    return (
        found.withColumn("is_flapping", f.col("short_lives") >= FLAPS_MIN)
        .withColumn("is_slow", f.coalesce(slow, f.lit(False)))
        .join(names, ["group_id", "client"], "left")
        .select(*MEMBERS.names)
    )


def clients(members: DataFrame) -> DataFrame:
    """members: the table."""
    from pyspark.sql import functions as f

    return (
        members.groupBy("date", "client_host", "client_software")
        .agg(
            f.count_distinct("group_id").alias("groups"),
            f.count("*").alias("clients"),
            *(f.count_if(f"is_{name}").alias(name) for name in ("flapping", "slow", "stuck")),
            *(f.sum(name).alias(name) for name in ("triggered", "expired", "waited_ms")),
        )
        .select(*BY_CLIENT.names)
    )


def _of_consumers(lives: DataFrame) -> DataFrame:
    """Each coming and going with its consumer."""
    from pyspark.sql import functions as f

    client = f.coalesce("group_instance_id", f.concat_ws("@", "client_id", "client_host"))
    return lives.withColumn("client", client)


def _lived(lives: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kind = f.col("kind")
    of_client = Window.partitionBy("group_id", "client").orderBy("at_ms", "kind")
    # One consumer has one life at a time, so that a going ends what the coming before it began.
    lived_ms = f.when(
        f.lag("kind").over(of_client) == "member_joined", f.col("at_ms") - f.lag("at_ms").over(of_client)
    )
    missed = (kind == "member_expired") & f.col("cause").isin(*MISSED_CAUSES)
    return (
        lives.withColumn("lived_ms", lived_ms)
        .groupBy("date", "group_id", "client")
        .agg(
            f.count_if(kind == "member_joined").alias("joined"),
            f.count_if(kind == "member_left").alias("left"),
            f.count_if(kind == "member_expired").alias("expired"),
            f.count_if(kind == "member_fenced").alias("fenced"),
            f.count_if(kind.isin(*GONE) & (f.col("lived_ms") < SHORT_LIFE_MS)).alias("short_lives"),
            f.count_if(missed).alias("missed_rebalances"),
            f.max_by(missed, f.struct("at_ms", "kind")).alias("is_stuck"),
        )
    )


def _triggered(rebalances: DataFrame, lives: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        _named(rebalances.where("member_id IS NOT NULL"), lives)
        .groupBy("date", "group_id", "client")
        .agg(f.count("*").alias("triggered"))
    )


def _waited(rebalances: DataFrame, lives: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    long_ = f.col("duration_ms") > SLOW_MS
    all_long = rebalances.groupBy("date", "group_id").agg(f.count_if(long_).alias("long"))
    waited = rebalances.select("date", "group_id", "duration_ms", f.explode("waited_for").alias("member_id"))
    return (
        _named(waited, lives)
        .groupBy("date", "group_id", "client")
        .agg(
            f.count("*").alias("waited_for"),
            f.sum("duration_ms").alias("waited_ms"),
            f.count_if(long_).alias("waited_long"),
        )
        .join(all_long, ["date", "group_id"])
    )


def _named(rows: DataFrame, lives: DataFrame) -> DataFrame:
    """With whose a member id is: the id itself where it came before events are known, and is still there."""
    from pyspark.sql import functions as f

    consumers = lives.select("group_id", "member_id", "client").distinct()
    joined = rows.join(consumers, ["group_id", "member_id"], "left")
    return joined.withColumn("client", f.coalesce("client", "member_id"))
