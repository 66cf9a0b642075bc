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
        Column("hour_ms", "bigint", "Unix time at which the hour began."),
        Column("offsets_partition", "int", f"{TIER}: the whole tier."),
        Column("groups", "bigint", "Groups that committed or rebalanced."),
        Column("commits", "bigint", "OffsetCommit requests."),
        Column("offsets", "bigint", "Partitions committed in them."),
        Column("commits_per_s", "double", "Commits a second, on average over the whole hour."),
        Column("peak_commits_per_s", "double", "Commits a second in its busiest minute, on average."),
        Column("rebalances", "bigint", "Rebalances that began."),
        Column("hot_group", "string", "Group that committed most."),
        Column("hot_share", "double", "That group's share of the commits."),
    ),
)
FORECAST = Table(
    "forecast",
    f"One row for each day: the trend so far, and what it means {AHEAD_DAYS} days later.",
    (
        Column("peak_commits_per_s", "double", "Commits a second in the tier's busiest minute, on average."),
        Column("days", "bigint", "Days that the trend was taken from."),
        Column(
            "trend_per_day",
            "double",
            "Commits a second by which the peak rises each day; null for less than 3 days.",
        ),
        Column("forecast_commits_per_s", "double", f"The peak in {AHEAD_DAYS} days."),
        Column(
            "hot_partition_share", "double", "Share of the peak that the busiest offsets partition bears."
        ),
        Column(
            "partitions_now",
            "int",
            f"Offsets partitions needed for {COMMITS_PER_S:,} commits a second each, at even load.",
        ),
        Column("partitions_ahead", "int", f"Offsets partitions needed in {AHEAD_DAYS} days."),
    ),
)
