"""`groupd bench costs` and `groupd bench capacity-check`: they fill the files of `groupd capacity`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.ground.machine import machine
from cluster import capacity_page
from cluster.capacity import checked, page
from cluster.capacity import costs as tables
from cluster.capacity.costs import FOREIGN_MAX, CostsError, Measured
from cluster.capacity.units import quantity
from cluster.cli.common import console, examples, fail
from cluster.cli.tables import Table

EXIT_WRONG: int = 2
JsonFile = Annotated[
    Path | None, typer.Option("--json-file", help="Write what was measured into this file.", dir_okay=False)
]
SIZES = "300,1000,3000"


def register(app: typer.Typer) -> None:
    """Add the commands to `groupd bench`."""
    app.command("costs", epilog=examples("groupd bench costs --json-file costs.json"))(costs)
    lines = (
        "groupd bench capacity-check --json-file checked.json",
        "groupd bench capacity-check --members 300 --seconds 20",
    )
    app.command("capacity-check", epilog=examples(*lines))(capacity_check)


def costs(json_file: JsonFile = None) -> None:
    """Measure what a tier's parts cost: what `groupd capacity` computes with. Takes three minutes.

    On a tier of its own, with three copies: idle processes, heartbeats and commits at several rates, joins,
    members, offsets. The machine should do nothing else.
    """
    from bench.capacity import costs as measuring
    from bench.peers.options import Failed

    try:
        table = measuring.measure(_say, _command(), machine())
    except (Failed, CostsError, RuntimeError) as error:
        fail(str(error))
    shown = Table(title=table.measured.machine, show_header=False)
    for name, curve in table.curves.items():
        row = tables.CURVES[name]
        points = ", ".join(f"{each:,.1f} at {per_s:,.0f}/s" for per_s, each in curve.points)
        shown.add_row(row.meaning, f"{row.unit}: {points}")
    for name, row in tables.ROWS.items():
        shown.add_row(row.meaning, quantity(table[name], row.unit))
    console.print(shown)
    _tell(table.measured, json_file, tables.plain(table))


def capacity_check(
    members: Annotated[str, typer.Option(help="Members of each swarm, with commas between them.")] = SIZES,
    seconds: Annotated[float, typer.Option(help="Seconds of each swarm that count.", min=10)] = 40.0,
    costs_file: Annotated[
        Path | None, typer.Option("--costs", help="A file of `groupd bench costs`. (default this release's)")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run swarms of three sizes and put what their tiers used beside what the model says. Takes five minutes.

    A swarm that did not settle, or did not send what was planned, shows nothing: the exit code is 1 then, and
    the file says so.
    """
    from bench.capacity import check as checking
    from bench.peers.options import Failed

    try:
        sizes = tuple(int(size) for size in members.split(","))
    except ValueError:
        fail(f"--members {members}: whole numbers such as {SIZES} are expected", EXIT_WRONG)
    if min(sizes) < checking.GROUP_SIZE:
        fail(f"--members {members}: a group has {checking.GROUP_SIZE} of them", EXIT_WRONG)
    try:
        table = tables.parse(costs_file.read_text()) if costs_file else capacity_page.costs()
        wanted = checking.Wanted(sizes, seconds, _command(), machine())
        found = checking.check(wanted, table, _say)
        shown = Table(title=f"Model, measured, error\n{found.measured.machine}")
        shown.add_column("")
        for size in found.sizes:
            shown.add_column(f"{size.load.members:,} members", justify="right")
        for name, figure in checked.FIGURES.items():
            shown.add_row(figure.meaning, *(page.compared(size, name) for size in found.sizes))
    except (Failed, CostsError, RuntimeError, OSError) as error:
        fail(str(error))
    console.print(shown)
    _tell(found.measured, json_file, checked.plain(found))
    if found.unseen:
        fail("; ".join(found.unseen))


def _tell(measured: Measured, json_file: Path | None, plain: dict[str, Any]) -> None:
    console.print(f"Other programs had {measured.foreign:.0%} of the processors.")
    if not measured.is_quotable:
        console.print(f"More than {FOREIGN_MAX:.0%}: preliminary. Measure again on a quiet machine.")
    if json_file is not None:
        json_file.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
        console.print(f"Written: {json_file}")


def _say(what: str) -> None:
    console.print(f"[dim]·[/dim] {what}")


def _command() -> str:
    """The command as it was given, but for its files, which are nobody else's business."""
    words = sys.argv[1:]
    for flag in ("--json-file", "--costs"):
        if flag in words:
            place = words.index(flag)
            del words[place : place + 2]
    return shlex.join(["groupd", *words])
