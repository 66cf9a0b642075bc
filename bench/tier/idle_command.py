"""`groupd bench idle`, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer

from bench.ground.machine import machine
from cluster.cli.common import console


def register(app: typer.Typer) -> None:
    """Add the command."""
    examples = "[bold]Examples[/bold]\n\n  groupd bench idle\n\n  groupd bench idle --nodes 3 --json"
    app.command("idle", epilog=examples)(_idle)


def _idle(
    nodes: Annotated[int, typer.Option(help="Nodes of the tier.", min=1, max=9)] = 1,
    copies: Annotated[
        int | None, typer.Option(help="Copies of each partition. (default as many as nodes, up to 3)", min=1)
    ] = None,
    settle: Annotated[float, typer.Option(help="Seconds until the tier has settled.", min=0)] = 45.0,
    seconds: Annotated[float, typer.Option(help="Seconds for which it is watched.", min=1)] = 30.0,
    bound: Annotated[
        float, typer.Option(help="Wake-ups a second that a process of ours may have.", min=0)
    ] = 25.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Count what a tier does when nobody asks it for anything: CPU, wake-ups, and who wakes whom.

    The exit code is 1 if a process of ours wakes more often than --bound allows.
    """
    from bench.tier import idle  # not at the top: every command of `groupd` imports this module

    plan = idle.Plan(nodes, copies or min(nodes, 3), settle, seconds, bound)
    if plan.copies > nodes:
        typer.echo(
            f"groupd: --copies {copies}: {nodes} {'node has' if nodes == 1 else 'nodes have'} room "
            f"for {nodes} at most",
            err=True,
        )
        raise typer.Exit(2)
    processes = idle.measure(plan, _say(as_json))
    if as_json:
        typer.echo(json.dumps({"machine": machine(), **idle.as_json(processes, plan)}, indent=2))
    else:
        idle.show(console, processes, plan, machine())
    if idle.too_lively(processes, bound):
        raise typer.Exit(1)


def _say(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}"))
