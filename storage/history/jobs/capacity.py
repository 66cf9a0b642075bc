"""What offsets partitions bear over time, which groups weigh most, and how many partitions will be needed."""

from __future__ import annotations

from typing import Final

from storage.history.jobs.table import Column, Table

TIER: Final = -1
"""Stands for all offsets partitions where one is named."""
COMMITS_PER_S: Final = 10_000
"""What one leader should be asked for: a third of a core (bench/README.md, OffsetCommit of one, groupd-3)."""
AHEAD_DAYS: Final = 30

CAPACITY = Table(
    "capacity",
    "One row for each hour and offsets partition, and one for the tier.",
    (
        Column("hour_ms", "bigint", "When the hour began."),
        Column("offsets_partition", "int", f"{TIER}: the whole tier."),
        Column("groups", "bigint", "That committed or rebalanced."),
        Column("commits", "bigint", ""),
        Column("offsets", "bigint", ""),
        Column("commits_per_s", "double", "Over the whole hour, on average."),
        Column("peak_commits_per_s", "double", "Of its busiest minute, on average."),
        Column("rebalances", "bigint", "That began."),
        Column("hot_group", "string", "Which committed most."),
        Column("hot_share", "double", "Of the commits, by that group."),
    ),
)
FORECAST = Table(
    "forecast",
    f"One row for each day: the trend so far, and what it means {AHEAD_DAYS} days later.",
    (
        Column("peak_commits_per_s", "double", "Of the tier's busiest minute, on average."),
        Column("days", "bigint", "That the trend was taken from."),
        Column("trend_per_day", "double", "By how much the peak rises a day; null for less than 3 days."),
        Column("forecast_commits_per_s", "double", f"The peak in {AHEAD_DAYS} days."),
        Column("hot_partition_share", "double", "Of the peak, borne by the busiest offsets partition."),
        Column("partitions_now", "int", f"Needed for {COMMITS_PER_S:,} commits a second each, at even load."),
        Column("partitions_ahead", "int", f"Needed in {AHEAD_DAYS} days."),
    ),
)
