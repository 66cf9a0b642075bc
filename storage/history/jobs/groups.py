"""Each group's day: how much of it the group was stable, why not, and what else is known of it."""

from __future__ import annotations

from storage.history.jobs.table import Column, Table

GROUPS = Table(
    "groups",
    "One row for each group and day on which anything happened to it.",
    (
        Column("group_id", "string", ""),
        Column("group_type", "string", "Null if it only commits."),
        Column("rebalances", "bigint", "That began on this day."),
        Column("causes", "map<string, bigint>", "Rebalances by cause."),
        Column(
            "unstable_ms",
            "bigint",
            "That these took; one without an end counts up to the last event of the day.",
        ),
        Column("known_ms", "bigint", "From the tier's first event on this day to its last."),
        Column("served_ms", "bigint", "Of that time, while it had members."),
        Column(
            "availability",
            "double",
            "Share of served_ms in which it was stable; null if it had no members: nobody was served.",
        ),
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
        Column("commits_per_s", "double", "Over known_ms, on average."),
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
