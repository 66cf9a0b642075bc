"""Periods in which a group's rebalances feed each other, with the one that began it."""

from __future__ import annotations

from typing import Final

from storage.history.jobs.table import Column, Table

PAUSE_MS_MAX: Final = 30_000
"""A rebalance that begins so soon after the last one's end belongs to it: no consumer has got far."""
REBALANCES_MIN: Final = 5
"""How many rebalances make a storm; the restart of one member makes two."""

STORMS = Table(
    "storms",
    f"{REBALANCES_MIN} or more rebalances in a row, each within {PAUSE_MS_MAX // 1000} s of the last one.",
    (
        Column("group_id", "string", "Group that did not come to rest."),
        Column("began_ms", "bigint", "Unix time at which the first rebalance began."),
        Column("ended_ms", "bigint", "Unix time at which the last one ended; null if it did not end."),
        Column("rebalances", "int", "Rebalances in the storm."),
        Column("cause", "string", "The origin: why the first one began."),
        Column("member_id", "string", "The origin: the member that caused the first one."),
        Column("client_id", "string", "That member's client id."),
        Column("client_host", "string", "That member's address."),
        Column("reason", "string", "Why, in that member's own words."),
        Column("causes", "map<string, bigint>", "All rebalances of the storm by cause."),
        Column("triggers", "int", "Members that caused one of them."),
        Column("unstable_ms", "bigint", "Part of the storm in which the group was not stable."),
        Column("idle_member_ms", "bigint", "The bill: members without work, times how long."),
    ),
)
