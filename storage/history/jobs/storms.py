"""Periods in which a group's rebalances feed each other, with the one that began it."""

from __future__ import annotations

from typing import Final

from storage.history.jobs.table import Column, Table

PAUSE_MS_MAX: Final = 30_000
"""A rebalance that begins so soon after the last one's end belongs to it: no consumer has got far."""
REBALANCES_MIN: Final = 5
"""A member's restart is two."""

STORMS = Table(
    "storms",
    f"{REBALANCES_MIN} or more rebalances in a row, each within {PAUSE_MS_MAX // 1000} s of the last one.",
    (
        Column("group_id", "string", ""),
        Column("began_ms", "bigint", "Of the first rebalance."),
        Column("ended_ms", "bigint", "Of the last one; null if that did not end."),
        Column("rebalances", "int", ""),
        Column("cause", "string", "The origin: why the first one began."),
        Column("member_id", "string", "The origin: whose doing it was."),
        Column("client_id", "string", "The origin's."),
        Column("client_host", "string", "The origin's."),
        Column("reason", "string", "The origin's own words."),
        Column("causes", "map<string, bigint>", "Of all of its rebalances."),
        Column("triggers", "int", "Members whose doing they were."),
        Column("unstable_ms", "bigint", "Of that time not stable."),
        Column("idle_member_ms", "bigint", "The bill."),
    ),
)
