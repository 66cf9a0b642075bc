"""All tables, in the order in which they are made: each may read those before it.

`python -m storage.history.jobs.tables` prints TABLES.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from storage.history.jobs.capacity import CAPACITY, FORECAST, capacity, forecast
from storage.history.jobs.digest import Digest
from storage.history.jobs.groups import GROUPS, groups
from storage.history.jobs.invariants import INVARIANTS, invariants
from storage.history.jobs.members import BY_CLIENT, MEMBERS, clients, members
from storage.history.jobs.rebalances import REBALANCES, rebalances
from storage.history.jobs.storms import STORMS, storms
from storage.history.jobs.table import Table, markdown
from storage.history.jobs.what_if import WHAT_IF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Made = dict[str, DataFrame]

JOBS: Final[tuple[tuple[Table, Callable[[Digest, Made], DataFrame]], ...]] = (
    (REBALANCES, lambda seen, _: rebalances(seen.events)),
    (STORMS, lambda _, made: storms(made["rebalances"])),
    (GROUPS, lambda seen, made: groups(seen.events, seen.lives, seen.hours, made["rebalances"])),
    (MEMBERS, lambda seen, made: members(seen.lives, made["rebalances"])),
    (BY_CLIENT, lambda _, made: clients(made["members"])),
    (CAPACITY, lambda seen, made: capacity(seen.hours, made["rebalances"])),
    (FORECAST, lambda _, made: forecast(made["capacity"])),
    (INVARIANTS, lambda seen, _: invariants(seen.events, seen.lives)),
)
TABLES: Final = (*(table for table, _ in JOBS), WHAT_IF)
"""`what_if` is made on request: it takes the assignors from its caller."""


def named(name: str) -> Table:
    return next(table for table in TABLES if table.name == name)


if __name__ == "__main__":
    print(markdown(TABLES), end="")
