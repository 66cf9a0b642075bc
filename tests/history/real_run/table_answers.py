"""The same answers from the tables that an engine makes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from storage.history.jobs.engine import Engine
from storage.history.jobs.invariants import COMMIT_REGRESSED
from tests.history.real_run.answers import Back, Trigger


class TableAnswers(NamedTuple):
    """The tables' answers by group, where there is more than one."""

    triggers: dict[str, list[Trigger]]
    unowned_ms: dict[str, int]
    """The longest time that the tables allow for partitions without an owner, summed over partitions."""
    back: set[Back]
    broken: list[Any]
    """The rows that the checks of all other invariants found."""


def table_answers(engine: Engine) -> TableAnswers:
    triggers = defaultdict(list)
    unowned_ms: dict[str, int] = defaultdict(int)
    for row in engine.rows("SELECT * FROM rebalances ORDER BY group_id, began_ms"):
        triggers[row["group_id"]].append(Trigger(row["began_ms"], row["member_id"], row["cause"]))
        unowned_ms[row["group_id"]] += row["unowned_partition_ms"] or 0
    broken = engine.rows("SELECT * FROM invariants")
    back = {
        Back(*(row[name] for name in ("group_id", "topic", "partition", "before", "after")))
        for row in broken
        if row["rule"] == COMMIT_REGRESSED
    }
    others = [row for row in broken if row["rule"] != COMMIT_REGRESSED]
    return TableAnswers(dict(triggers), dict(unowned_ms), back, others)
