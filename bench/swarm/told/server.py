"""Shows what the server of a run needed: CPU and memory of its processes.

The judge does not look at this: the rows of a history are the clients' alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bench.swarm.counted.needs import Need, plain
from bench.swarm.counted.wall import Wall
from bench.swarm.told import charts
from bench.swarm.told.charts import Band, Line
from bench.swarm.told.page import Section, number, plots, table


def lines(needs: Sequence[Need]) -> Iterator[str]:
    """Lines for a terminal."""
    if needs:
        told = plain(needs)
        yield (
            f"server: {number(told['cores_mean'])} cores, at most {number(told['cores_max'])}; "
            f"{number(told['memory_mib_mean'])} MiB, at most {number(told['memory_mib_max'])} MiB, "
            f"in {told['processes_max']} processes"
        )


def sections(needs: Sequence[Need], bands: Sequence[Band], wall: Wall | None = None) -> Iterator[Section]:
    """Sections for the page."""
    if not needs:
        return
    told = plain(needs)
    rows = [
        ("cores", number(told["cores_mean"]), number(told["cores_max"])),
        ("memory in MiB", number(told["memory_mib_mean"]), number(told["memory_mib_max"])),
    ]
    courses = (
        ("The server's cores", Line("cores", _by_second(needs, 1), charts.BLUE, True)),
        ("The server's memory in MiB", Line("MiB", _by_second(needs, 2), charts.PURPLE, True)),
    )
    drawn = [charts.over_time(title, [line], 1, bands, wall) for title, line in courses]
    yield Section("The server", plots(drawn) + table(("", "mean", "max"), rows))


def _by_second(needs: Sequence[Need], field: int) -> list[float | None]:
    values: list[float | None] = [None] * (math.floor(max(0.0, needs[-1].at_s)) + 1)
    for need in needs:
        values[max(0, math.floor(need.at_s))] = need[field]
    return values
