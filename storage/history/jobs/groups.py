"""Each group's day: how much of it the group was stable, why not, and what else is known of it."""

from __future__ import annotations

from storage.history.jobs.table import Column, Table

GROUPS = Table(
    "groups",
    "One row for each group and day on which anything happened to it.",
    (
        Column("group_id", "string", "The group."),
        Column("group_type", "string", '"classic" or "consumer"; null if the group only commits.'),
        Column("rebalances", "bigint", "Rebalances that began on this day."),
        Column("causes", "map<string, bigint>", "Rebalances by cause."),
        Column(
            "unstable_ms",
            "bigint",
            "Time that these took; one without an end counts up to the last event of the day.",
        ),
        Column("known_ms", "bigint", "Time from the tier's first event on this day to its last."),
        Column("served_ms", "bigint", "Part of that time in which the group had members."),
        Column(
            "availability",
            "double",
            "Share of served_ms in which it was stable; null if it had no members: nobody was served.",
        ),
        Column(
            "between_ms",
            "bigint",
            "Time from one rebalance to the next, on average; null if there is only one.",
        ),
        Column("idle_member_ms", "bigint", "The bill: members without work, times how long."),
        Column("moved", "bigint", "Partitions that changed owner."),
        Column("joined", "bigint", "Members that came."),
        Column("gone", "bigint", "Members that left, expired or were fenced."),
        Column("expired", "bigint", "Those of them whose timeout passed."),
        Column("churn", "double", "Comings and goings per member there was."),
        Column("worst_client", "string", "Client id and host that caused the most expensive rebalances."),
        Column("worst_idle_member_ms", "bigint", "Bill of those rebalances."),
        Column("commits", "bigint", "OffsetCommit requests."),
        Column("commits_per_s", "double", "Commits a second, on average over known_ms."),
        Column("regressed", "bigint", "Offsets that went back."),
        Column("lag_max", "bigint", "Greatest lag that was sampled."),
        Column("offsets_expired", "bigint", "Offsets that were removed after their retention."),
        Column(
            "offsets_expiring",
            "bigint",
            "Expiries ahead: past their retention within about a day from when they were counted, unless"
            " committed again or, of an empty group, somebody comes.",
        ),
        Column("expires_ms", "bigint", "When the first of these expires."),
    ),
)
