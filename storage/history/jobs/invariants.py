"""The table of what must never be in a history (`invariants.sql`)."""

from __future__ import annotations

from typing import Final

from storage.history.jobs.table import Column, Table

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
        Column("group_id", "string", "Group it happened to; null for leaders."),
        Column("offsets_partition", "int", "The group's offsets partition."),
        Column("at_ms", "bigint", "Unix time at which it was broken."),
        Column("until_ms", "bigint", "Unix time at which double ownership ended; null: no end is known."),
        Column("topic", "string", "Topic of the partition concerned."),
        Column("partition", "int", "Number of the partition concerned."),
        Column("members", "array<string>", "Members concerned, the first owner first."),
        Column("before", "bigint", "The offset or epoch before; of leaders, the first node."),
        Column("after", "bigint", "The offset or epoch after; of leaders, the other node."),
    ),
)
FAR: Final = 2**62
"""No end is known."""
