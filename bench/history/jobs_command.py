"""`groupd bench history-jobs`, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bench.ground.machine import machine
from cluster.cli.common import console


def register(app: typer.Typer) -> None:
    """Add the command."""
    examples = (
        "[bold]Examples[/bold]\n\n  groupd bench history-jobs --events 1000000\n\n"
        "  groupd bench history-jobs --folder ~/history-10m --cores 2 --runs 5 --json"
    )
    app.command("history-jobs", epilog=examples)(_history_jobs)


def _history_jobs(
    events: Annotated[int, typer.Option(help="Events in the made-up history.", min=10_000)] = 10_000_000,
    folder: Annotated[Path | None, typer.Option(help="Keep the history here. (default temporary)")] = None,
    memory: Annotated[str, typer.Option(help="Memory of each engine.")] = "2g",
    cores: Annotated[str, typer.Option(help="Numbers of cores, with commas between them.")] = "1,2",
    skewed: Annotated[
        bool, typer.Option("--skewed", help="One group has most of all events, and half of the rebalances.")
    ] = False,
    runs: Annotated[int, typer.Option(help="Runs of each engine on each number of cores.", min=1)] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Make all tables of a made-up history by Spark and by DuckDB, in turns.

    Their tables must be the same. Ten million events take some minutes.
    """
    from bench.history import jobs as history_jobs  # not at the top: every command imports this module

    try:
        numbers = tuple(int(number) for number in cores.split(","))
    except ValueError:
        typer.echo(f"groupd: --cores {cores}: whole numbers such as 1,2 are expected", err=True)
        raise typer.Exit(2) from None
    try:
        plan = history_jobs.Plan(events, memory, numbers, skewed, runs)
        measured = history_jobs.measure(plan, folder, _say(as_json))
    except history_jobs.CannotRun as error:
        typer.echo(f"groupd: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        figures = {
            "runs": [run._asdict() for run in measured],
            "ratios": [ratio._asdict() for ratio in history_jobs.ratios(measured)],
        }
        typer.echo(json.dumps({"machine": machine(), **figures}, indent=2))
    else:
        history_jobs.show(console, measured, machine())


def _say(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}"))
