"""`groupd bench path`, the command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from bench.ground.machine import machine
from cluster.cli.common import console
from cluster.cli.tables import Table

if TYPE_CHECKING:
    from bench.tier.path import Cost


def register(app: typer.Typer) -> None:
    """Add the command."""
    examples = "[bold]Examples[/bold]\n\n  groupd bench path\n\n  groupd bench path --functions 30"
    app.command("path", epilog=examples)(_path)


def _path(
    requests: Annotated[int, typer.Option(help="Requests of each sort.", min=10)] = 50,
    pause_ms: Annotated[float, typer.Option(help="Time between two requests, in ms.", min=1)] = 40.0,
    functions: Annotated[int, typer.Option(help="How many functions to name, of each process.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Count what one request costs each process at a low rate: wake-ups, calls, system calls.

    An OffsetCommit of 10, a heartbeat, and a join with its sync, on a throw-away tier of three nodes and
    three copies; less what the idle processes do. System calls are counted where strace is installed and may
    look.
    """
    from bench.tier import path  # not at the top: every command of `groupd` imports this module

    plan = path.Plan(requests, pause_ms / 1000)
    say = (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}"))
    costs = path.measure(plan, say)
    if as_json:
        typer.echo(json.dumps({"machine": machine(), **path.as_json(costs, plan)}, indent=2))
        return
    _show(costs)
    for cost in costs if functions else ():
        typer.echo(f"\n{cost.work}, {cost.process}: calls of a function per request")
        for name, count in sorted(cost.functions.items(), key=lambda each: -each[1])[:functions]:
            typer.echo(f"{count:8.2f}  {name}")


def _show(costs: list[Cost]) -> None:
    table = Table(title=machine())
    table.add_column("request")
    table.add_column("process")
    for heading in ("wake-ups", "Ray's", "Python calls", "C calls", "system calls"):
        table.add_column(heading, justify="right")
    for cost in costs:
        figures = (f"{each:.1f}" for each in (cost.wakes, cost.ray_wakes, cost.python, cost.c))
        syscalls = "not counted" if cost.syscalls is None else f"{cost.syscalls:.1f}"
        table.add_row(cost.work, cost.process, *figures, syscalls)
    console.print(table)
