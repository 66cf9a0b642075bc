"""Each consumer's day: does it flap, is it slow, does it not follow rebalances?"""

from __future__ import annotations

from typing import Final

from storage.history.jobs.table import Column, Table

SHORT_LIFE_MS: Final = 600_000
FLAPS_MIN: Final = 6
"""How many short lives on one day make a member one that flaps."""
SLOW_MS: Final = 5_000
SLOW_REBALANCES_MIN: Final = 3
"""How many rebalances have to have waited for a member longer than SLOW_MS before it counts as slow."""
SLOW_SHARE: Final = 0.5
"""A member is slow if it held up this share of the group's long rebalances on that day."""

MEMBERS = Table(
    "members",
    "One row for each consumer and day on which it came, went or was waited for.",
    (
        Column("group_id", "string", "The consumer's group."),
        Column("client", "string", "Name of the consumer: its instance id, else client id and host."),
        Column("client_id", "string", "The consumer's client id."),
        Column("client_host", "string", "The consumer's address."),
        Column("client_software", "string", "Client library, as last seen."),
        Column("joined", "bigint", "Lives that began."),
        Column("left", "bigint", "Lives that the consumer ended itself."),
        Column("expired", "bigint", "Lives that a timeout ended."),
        Column("fenced", "bigint", "Lives that ended because another took its place."),
        Column(
            "short_lives",
            "bigint",
            f"Lives that ended and were shorter than {SHORT_LIFE_MS // 60_000} minutes.",
        ),
        Column(
            "missed_rebalances",
            "bigint",
            "Times it expired although its session had not ended: it did not follow a rebalance.",
        ),
        Column("triggered", "bigint", "Rebalances that it caused."),
        Column("waited_for", "bigint", "Rebalances that waited for it."),
        Column("waited_ms", "bigint", "Time that these took."),
        Column("waited_long", "bigint", f"Those of them that took longer than {SLOW_MS // 1000} s."),
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
        Column("client_host", "string", "The host's address."),
        Column("client_software", "string", "Client library."),
        Column("groups", "bigint", "Groups in which it has consumers."),
        Column("clients", "bigint", "Consumers."),
        Column("flapping", "bigint", "Consumers that were flapping."),
        Column("slow", "bigint", "Consumers that were slow."),
        Column("stuck", "bigint", "Consumers that were stuck."),
        Column("triggered", "bigint", "Rebalances that these consumers caused."),
        Column("expired", "bigint", "Lives that a timeout ended."),
        Column("waited_ms", "bigint", "Time of rebalances that waited for them."),
    ),
)
MISSED_CAUSES: Final = (
    *("rebalance timeout", "did not rejoin in time"),
    *("did not join in time", "did not sync in time"),
)
"""Causes of expiries of members whose session had not ended: a KIP-848 member did not revoke (M16), a
classic one did not join or sync (C13, C16). The words are the coordinator's: a test holds them to it."""
