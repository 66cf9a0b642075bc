"""The garbage collector's longest pause in a replica with many members, with Python's defaults and with ours.

The members come in log entries; then the replica leads and serves heartbeats and commits. Each way is
measured in a process of its own. Pauses are CPU time of the thread, so that other programs do not count.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from typing import Any, NamedTuple

from actors.ground.collector import keep_collections_short
from bench.replica import member_memory
from cluster.cli.common import console
from cluster.cli.tables import Table

MEMBERS = 200_000
GROUP_SIZE = 100
ROUNDS = 3
CHURN = 20_000
"""How many members are replaced by others in each round."""
GOAL_MS = 10


class Pauses(NamedTuple):
    """The longest pause of each phase in milliseconds, and the number of pauses."""

    tuned: bool
    members: int
    loading_ms: float
    serving_ms: float
    collections: int
    total_ms: float


def measure(members: int = MEMBERS) -> list[Pauses]:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1, maxtasksperchild=1) as pool:
        return [pool.apply(_pauses, (members, tuned)) for tuned in (False, True)]


def _pauses(members: int, tuned: bool) -> Pauses:
    # Every actor does this once it has started; its state comes later and is not frozen.
    gc.collect()
    gc.freeze()
    if tuned:
        keep_collections_short()
    pauses: list[float] = []
    began: list[float] = []

    def watch(phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            began.append(time.thread_time())
        else:
            pauses.append(1_000 * (time.thread_time() - began.pop()))

    gc.callbacks.append(watch)
    replica, tokens = member_memory.replica_of(GROUP_SIZE)
    member_memory.load(replica, "classic", members, GROUP_SIZE)
    loading_ms, loaded = max(pauses), len(pauses)
    member_memory.lead(replica)
    for _ in range(ROUNDS):
        for group_id, member_id in member_memory.ids("classic", members, GROUP_SIZE):
            member_memory.beat(replica, tokens, "classic", group_id, member_id)
        member_memory.load(replica, "classic", CHURN, GROUP_SIZE)
    return Pauses(tuned, members, loading_ms, max(pauses[loaded:], default=0.0), len(pauses), sum(pauses))


def main() -> None:
    """Print the figures of both ways as a table."""
    title = f"Longest pause of the garbage collector, {MEMBERS:,} members, goal {GOAL_MS} ms"
    table = Table(title=title)
    for column in ("collector", "loading", "serving", "collections", "all of them"):
        table.add_column(column, justify="right")
    for pauses in measure():
        table.add_row(
            "ours" if pauses.tuned else "Python's defaults",
            f"{pauses.loading_ms:.1f} ms",
            f"{pauses.serving_ms:.1f} ms",
            f"{pauses.collections:,}",
            f"{pauses.total_ms:,.0f} ms",
        )
    console.print(table)


if __name__ == "__main__":
    main()
