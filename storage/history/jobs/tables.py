"""All tables, in the order in which they are made: each may read those before it.

`python -m storage.history.jobs.tables` prints TABLES.md.
"""

from __future__ import annotations

from typing import Final

from storage.history.jobs.capacity import CAPACITY, FORECAST
from storage.history.jobs.groups import GROUPS
from storage.history.jobs.invariants import INVARIANTS
from storage.history.jobs.members import BY_CLIENT, MEMBERS
from storage.history.jobs.rebalances import REBALANCES
from storage.history.jobs.storms import STORMS
from storage.history.jobs.table import Table, markdown
from storage.history.jobs.what_if import WHAT_IF

MADE: Final = (REBALANCES, STORMS, GROUPS, MEMBERS, BY_CLIENT, CAPACITY, FORECAST, INVARIANTS)
"""The tables that are made by SQL alone."""
TABLES: Final = (*MADE, WHAT_IF)
"""`what_if` is made on request: it takes the assignors from its caller."""


def named(name: str) -> Table:
    return next(table for table in TABLES if table.name == name)


if __name__ == "__main__":
    print(markdown(TABLES), end="")
