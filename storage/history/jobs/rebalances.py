"""The table of rebalances: why, whose doing, how long, what it cost (`paired.sql`)."""

from __future__ import annotations

from typing import Final

from storage.history.jobs.table import Column, Table

REBALANCES = Table(
    "rebalances",
    "One row for each rebalance, by the day on which it began.",
    (
        Column("group_id", "string", "Group that rebalanced."),
        Column("group_type", "string", '"classic" or "consumer".'),
        Column("offsets_partition", "int", "Offsets partition whose leader saw it begin."),
        Column("began_ms", "bigint", "Unix time of its beginning."),
        Column("ended_ms", "bigint", "Unix time of its end; null: it did not end while events are known."),
        Column("group_epoch", "int", "Generation or epoch that it ended with."),
        Column("cause", "string", "Why it began first."),
        Column("rule", "string", "Id of the rule that decided."),
        Column("reason", "string", "Why it began, in the member's own words."),
        Column("member_id", "string", "Member that caused it."),
        Column("client_id", "string", "That member's client id."),
        Column("client_host", "string", "That member's address."),
        Column("client_software", "string", "That member's client library."),
        Column("began_again", "int", "How often it began anew before it ended."),
        Column("terms", "int", "Leaders it took: more than 1 if one was lost meanwhile."),
        Column("duration_ms", "bigint", "Time from began_ms to ended_ms."),
        Column(
            "delayed_ms",
            "bigint",
            "Time before began_ms for which the first join or leave waited for more, to be taken together.",
        ),
        Column(
            "joining_ms",
            "bigint",
            "Part of the duration spent waiting for members to join, or for the target.",
        ),
        Column(
            "syncing_ms",
            "bigint",
            "Part of the duration spent waiting for the assignment, or for members to take it.",
        ),
        Column(
            "revoking_ms", "bigint", "Part of the duration until the last partition to be given up was free."
        ),
        Column("members", "int", "Members at its end."),
        Column("partitions", "int", "Partitions assigned at its end."),
        Column("moved", "int", "Partitions that changed owner."),
        Column("waited_for", "array<string>", "Members that came last or not at all."),
        Column("stops_all", "boolean", "Nobody works meanwhile: classic, unless cooperative."),
        Column("idle_member_ms", "bigint", "The bill: members without work, times how long."),
        Column(
            "unowned_partition_ms",
            "bigint",
            "Partitions that nobody worked on, times how long; an upper bound.",
        ),
    ),
)
COOPERATIVE: Final = "cooperative"
"""A protocol with this in its name is cooperative: its members work on what they keep (KIP-429)."""
