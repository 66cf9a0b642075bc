"""`groupd bench soak`, the command."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bench.ground.machine import machine


def register(app: typer.Typer) -> None:
    """Add the command."""
    examples = (
        "[bold]Examples[/bold]\n\n  groupd bench soak --minutes 120\n\n"
        "  groupd bench soak --minutes 20 --trace"
    )
    app.command("soak", epilog=examples)(_soak)


def _soak(
    minutes: Annotated[int, typer.Option(help="Simulated minutes; one takes half a second.", min=2)] = 60,
    groups: Annotated[int, typer.Option(help="Groups of each protocol, of four members each.", min=1)] = 8,
    life_s: Annotated[float, typer.Option(help="How long a member lives, on average.", min=1)] = 20,
    trace: Annotated[
        bool, typer.Option("--trace", help="Name the lines that allocated what is left of the second half.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure how a replica's memory rises while members come and go, in process and in simulated time."""
    from bench.replica import soak  # not at the top: every command of `groupd` imports this module

    load = soak.Load(groups, life_ms=round(life_s * 1_000))
    if trace:
        for line in soak.grown(minutes, load):
            typer.echo(line)
        return
    samples = list(soak.soak(minutes, load))
    if as_json:
        figures = {"samples": [each._asdict() for each in samples], "rise": soak.rise(samples)._asdict()}
        typer.echo(json.dumps({"machine": machine(), **figures}, indent=2))
    else:
        soak.show(samples)
