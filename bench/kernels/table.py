"""The figures as one table and as JSON, and the goals among them."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

from bench.kernels.measure import Figures, Result, median_ms
from bench.kernels.ours import Sample
from bench.kernels.shapes import Shape
from cluster.cli.tables import Table

GOALS_MS: Final = {
    ("uniform", False, False): 3.0,
    ("uniform", False, True): 3.0,
    ("uniform", True, False): 25.0,
    ("uniform", True, True): 16.0,
    ("range", False, False): 4.0,
    ("range", False, True): 4.0,
}
"""The goals in ms by assignor, heterogeneous and incremental: for 10,000 members, 1,000 topics and 500,000
partitions without racks."""
GOAL_SIZE: Final = (10_000, 1_000, 50)
LOAD_MAX: Final = 0.2
"""If the load before the measurement is above this, the figures say as much about other programs as about the
assignors."""


def goal_ms(shape: Shape) -> float | None:
    if shape.racks or (shape.members, shape.topics, shape.ratio) != GOAL_SIZE:
        return None
    return GOALS_MS.get((shape.assignor, shape.heterogeneous, shape.incremental))


def show(console: Console, result: Result, machine: str) -> None:
    table = Table(title=_title(result, machine))
    for name in ("assignor", "group", "topics", "how"):
        table.add_column(name, no_wrap=True)
    for name in ("groupd", "Kafka", "times", "recorded", "goal"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in result.figures:
        table.add_row(*_cells(each))
    console.print(table)


def _title(result: Result, machine: str) -> str:
    kafka = ", ".join(result.kafka.values()) or f"Kafka's assignors skipped: {result.skipped}"
    busy = f"; {result.load_before:.1f} cores were busy with other things" if _is_busy(result) else ""
    what = "group: members x topics x partitions a member. Medians in ms of the assigning thread's CPU;"
    what += " recorded: ours with the records of those whose target changes"
    return f"{machine}\n{kafka}\n{what}{busy}"


def _is_busy(result: Result) -> bool:
    return result.load_before > LOAD_MAX


def _cells(each: Figures) -> list[str]:
    shape, goal, times = each.shape, goal_ms(each.shape), each.times_faster
    ours = median_ms(each.ours)
    met = "green" if goal is not None and ours <= goal else "red"
    return [
        f"{shape.assignor}-rack" if shape.racks else shape.assignor,
        f"{shape.members:,}x{shape.topics:,}x{shape.ratio}",
        "5 kinds" if shape.heterogeneous else "alike",
        "joined" if shape.incremental else "full",
        f"{ours:,.2f}",
        f"{median_ms(each.kafka):,.2f}" if each.kafka else "-",
        "-" if times is None else f"{times:,.1f}",
        f"{each.records_ms + each.newcomer_ms:,.2f}",
        "" if goal is None else f"[{met}]{goal:g}[/{met}]",
    ]


def as_json(result: Result, machine: str) -> dict[str, Any]:
    return {
        "machine": machine,
        "kafka": result.kafka,
        "kafka_skipped": result.skipped,
        "load_before": result.load_before,
        "seconds": result.seconds,
        "figures": [
            {
                **each.shape._asdict(),
                "partitions": each.shape.partitions,
                "groupd": _spread(each.ours),
                "kafka": _spread(each.kafka),
                "times_faster": each.times_faster,
                "newcomer_cpu_ms": each.newcomer_ms,
                "with_records_cpu_ms": each.records_ms,
                "goal_ms": goal_ms(each.shape),
            }
            for each in result.figures
        ],
    }


def _spread(samples: list[Sample]) -> dict[str, Any] | None:
    if not samples:
        return None
    cpu, wall = [s.cpu_ms for s in samples], [s.wall_ms for s in samples]
    return {
        "cpu_ms": {"min": min(cpu), "median": median_ms(samples), "max": max(cpu)},
        "wall_ms": {"min": min(wall), "max": max(wall)},
        "runs": [s._asdict() for s in samples],
    }
