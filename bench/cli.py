"""`groupd bench`: measurements on this machine, against throw-away tiers."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import basics, raft, raft_table, snapshot_pause

app = typer.Typer(
    no_args_is_help=True,
    help="Measure the tier on this machine.",
    rich_markup_mode="rich",
    epilog="[bold]Examples[/bold]\n\n  groupd bench basics\n\n  groupd bench raft --kills 3",
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
    figures = basics.measure(_say(as_json), seconds, kills)
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


@app.command(
    "raft",
    epilog="[bold]Examples[/bold]\n\n  groupd bench raft\n\n"
    "  groupd bench raft --no-stock --journal-mib 1024\n\n  groupd bench raft --seconds 5 --json",
)
def raft_command(
    seconds: Annotated[float, typer.Option(help="Of each load.", min=0.1)] = 1.5,
    kills: Annotated[int, typer.Option(help="Leaders killed, and transfers, of each kind.", min=0)] = 10,
    idle_seconds: Annotated[float, typer.Option(help="Of idling.", min=0.1)] = 10.0,
    journal_mib: Annotated[int, typer.Option(help="To recover from.", min=1)] = 256,
    with_stock: Annotated[bool, typer.Option("--stock/--no-stock", help="Measure pysyncobj too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """groupd's Raft side by side with stock pysyncobj, in processes of their own. Takes about three minutes.

    Commit latency, records a second, CPU, failover, transfer, idling and recovery, without and with sync.
    """
    plan = raft.Plan(
        seconds=seconds,
        kills=kills,
        idle_seconds=idle_seconds,
        journal_mib=journal_mib,
        with_stock=with_stock,
    )
    result = raft.measure(plan, _say(as_json))
    if as_json:
        typer.echo(json.dumps(raft_table.as_json(result, machine()), indent=2))
    else:
        raft_table.show(console, result, machine())
    if any(result.figures[variant.name].problems for variant in raft.OURS):
        raise typer.Exit(1)


@app.command("snapshot", epilog="[bold]Examples[/bold]\n\n  groupd bench snapshot")
def snapshot_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """The longest pause that a snapshot of 100,000 live offsets makes in serving requests."""
    if not as_json:
        snapshot_pause.main()
        return
    pauses = [snapshot_pause.measure(groups=groups)._asdict() for groups in snapshot_pause.GROUPS]
    typer.echo(json.dumps({"machine": machine(), "pauses": pauses}, indent=2))


def _say(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}"))


def machine() -> str:
    """What the figures were measured on."""
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {packages}"
    )


def _processor() -> str:
    """The processor's own name where the kernel tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
