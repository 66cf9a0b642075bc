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
        Column("group_id", "string", "Null for leaders."),
        Column("offsets_partition", "int", ""),
        Column("at_ms", "bigint", "Since when."),
        Column("until_ms", "bigint", "Of double ownership: until when; null: no end is known."),
        Column("topic", "string", ""),
        Column("partition", "int", ""),
        Column("members", "array<string>", "Who: the first owner first."),
        Column("before", "bigint", "The offset or epoch before; of leaders, the first node."),
        Column("after", "bigint", "The offset or epoch after; of leaders, the other node."),
    ),
)
FAR: Final = 2**62
"""No end is known."""
