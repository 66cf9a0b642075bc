"""`groupd bench push`: a coordinator that pushes beside the other protocols."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bench.ground.machine import machine
from cluster.cli.common import console, examples


def register(app: typer.Typer) -> None:
    app.command(
        "push",
        epilog=examples(
            "groupd bench push",
            "groupd bench push --sizes 10 --rounds 3 --consumers 0",
            "groupd bench push --sizes '' --consumers 5000",
        ),
    )(push)


def push(
    sizes: Annotated[str, typer.Option(help="Members of each group, as 10,100.")] = "10,100,1000",
    rounds: Annotated[int, typer.Option(help="How many joins, and leaves, each group has.", min=1)] = 5,
    idle_seconds: Annotated[float, typer.Option(help="Seconds in which members are idle.", min=1)] = 30.0,
    consumers: Annotated[
        int, typer.Option(help="Consumers on one coordinator at last; 0: none.", min=0)
    ] = 5_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure how soon a group knows of a join or a leave and reads again, by protocol.

    Starts throw-away tiers of one node on free ports of this machine and stops them.
    """
    # Not at the top: every command of `groupd` imports this module.
    from bench.push import beside, many

    try:
        asked = tuple(int(size) for size in sizes.split(",") if size)
    except ValueError:
        typer.echo(f"groupd: --sizes {sizes}: whole numbers such as 10,100 are expected", err=True)
        raise typer.Exit(2) from None

    def say(words: str) -> None:
        typer.echo(words, err=as_json)

    rows = beside.measure(asked, rounds, idle_seconds, say) if asked else []
    found = many.measure(consumers, idle_seconds, say) if consumers else None
    if as_json:
        typer.echo(json.dumps({"machine": machine(), **beside.as_json(rows, found)}, indent=2))
    else:
        beside.show(console, rows, found, machine())
