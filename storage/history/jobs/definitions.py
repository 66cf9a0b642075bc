"""What the tables are, once for both engines.

Each is a file of SQL in DuckDB's dialect (`sql/`), into which the limits are put that the columns' words
speak of. No group is in two offsets partitions unless one was split, so most tables can be made of some
offsets partitions apart from the others (`fold`); SUMS is what the rest needs to know of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple

from storage.history.jobs import capacity, invariants, members, rebalances, storms
from storage.history.jobs.tables import MADE
from storage.history.period import Period
from storage.history.schema import BULK, GONE, KIND_NAMES, LIVES

SQL: Final = Path(__file__).with_name("sql")


class Definition(NamedTuple):
    """A relation, and of what it is made."""

    name: str
    is_read_often: bool = False
    """Kept, not made anew for each that reads it."""


PARTS: Final = (
    Definition("changes", True),
    Definition("lives", True),
    Definition("hours", True),
    Definition("minutes", True),
    Definition("known", True),
    Definition("paired", True),
    Definition("served"),
    Definition("moves"),
    Definition("doubtful"),
    Definition("intervals"),
)
"""The parts that tables are made of, in the order in which they are made."""
KNOWN: Final = "known"
"""The one part that offsets partitions do not have for themselves: since and until when the tier is known."""
OF_GROUPS: Final = (
    Definition("rebalances"),
    Definition("storms"),
    Definition("groups"),
    Definition("members", True),
    Definition("invariants"),
)
"""The tables whose rows are each of one group, or of one offsets partition."""
SUMS: Final = (Definition("loads", True), Definition("tier_minutes"), Definition("hosts"))
"""What the tier's tables are made of; those of all offsets partitions, in any order, are the tier's."""
OF_TIER: Final = (Definition("clients"), Definition("capacity", True), Definition("forecast"))
"""The tables that look at the tier as a whole."""


def query(name: str, counted: Period) -> str:
    """The SQL of a part or a table. `counted`: events in it count; the others that were read only tell how it
    began and how it went on."""
    limits = {**LIMITS, "since_ms": counted.since_ms, "until_ms": counted.until_ms}
    text = Template((SQL / f"{name}.sql").read_text(encoding="utf-8")).substitute(limits)
    table = next((table for table in MADE if table.name == name), None)
    return text if table is None else table.cast(text)


def _texts(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


LIMITS: Final[dict[str, Any]] = {
    "others": _texts(sorted(KIND_NAMES - set(BULK))),
    "bulk": _texts(BULK),
    "lives": _texts(LIVES),
    "gone": _texts(GONE),
    "cooperative": rebalances.COOPERATIVE,
    "pause_ms_max": storms.PAUSE_MS_MAX,
    "rebalances_min": storms.REBALANCES_MIN,
    "missed_causes": _texts(members.MISSED_CAUSES),
    "short_life_ms": members.SHORT_LIFE_MS,
    "flaps_min": members.FLAPS_MIN,
    "slow_ms": members.SLOW_MS,
    "slow_rebalances_min": members.SLOW_REBALANCES_MIN,
    "slow_share": members.SLOW_SHARE,
    "tier": capacity.TIER,
    "ahead_days": capacity.AHEAD_DAYS,
    "per_partition": capacity.COMMITS_PER_S,
    "far": invariants.FAR,
    "double_ownership": invariants.DOUBLE_OWNERSHIP,
    "commit_regressed": invariants.COMMIT_REGRESSED,
    "epoch_fell": invariants.EPOCH_FELL,
    "two_leaders": invariants.TWO_LEADERS,
}
