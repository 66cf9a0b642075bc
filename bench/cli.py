"""`groupd bench`: measurements on this machine, against throw-away tiers."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import basics

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the tier on this machine.",
    rich_markup_mode="rich",
    epilog="[bold]Examples[/bold]\n\n  groupd bench basics",
)
console = Console(highlight=False)
PACKAGES = ("ray", "pysyncobj", "kio", "uvloop", "msgpack")


@app.callback()
def bench() -> None:
    """Measure the tier on this machine."""


@app.command(
    "basics",
    epilog="[bold]Examples[/bold]\n\n  groupd bench basics\n\n  groupd bench basics --kills 5 --json",
)
def basics_command(
    seconds: Annotated[float, typer.Option(help="Of each load.", min=1)] = 10.0,
    kills: Annotated[int, typer.Option(help="Leaders killed.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """CPU per heartbeat and commit, failover, start time and memory: the README's first table.

    Starts throw-away tiers on free ports of this machine and stops them.
    """
    say = (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}"))
    figures = basics.measure(say, seconds, kills)
    if as_json:
        typer.echo(json.dumps({"machine": machine(), "figures": [f._asdict() for f in figures]}, indent=2))
        return
    table = Table(title=machine(), title_justify="left", box=None, pad_edge=False)
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("unit")
    table.add_column("how")
    for figure in figures:
        table.add_row(figure.name, f"{figure.value:,.1f}", figure.unit, figure.note)
    console.print(table)


def machine() -> str:
    """What the figures were measured on."""
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {packages}"
