"""`groupd bench in-front`, the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.ground.machine import machine
from cluster.cli.common import console, examples


def register(app: typer.Typer) -> None:
    """Add the command."""
    lines = (
        "groupd bench in-front",
        "groupd bench in-front --quick --work 1,4",
        "groupd bench in-front --work 4 --groups 1000 --offsets 100000 --runs 1",
    )
    app.command("in-front", epilog=examples(*lines))(_in_front)


def _in_front(
    work: Annotated[str, typer.Option(help="Numbers of the work to do, as 1,2. (default all)")] = "",
    runs: Annotated[int, typer.Option(help="Runs of each, without the tier and with it.", min=1)] = 3,
    seconds: Annotated[float, typer.Option(help="Seconds of each load.", min=0.1)] = 10.0,
    groups: Annotated[int, typer.Option(help="Groups that are taken over.", min=1)] = 10_000,
    offsets: Annotated[int, typer.Option(help="Offsets that they have committed.", min=1)] = 1_000_000,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, one run: does it all work?")] = False,
    out: Annotated[
        Path,
        typer.Option(help="Directory for JSON and Markdown. It keeps earlier calls' works.", file_okay=False),
    ] = Path("bench-in-front"),
    kafka_home: Annotated[
        Path | None,
        typer.Option(envvar="KAFKA_HOME", help="A Kafka 4 distribution, or a directory with its jars."),
    ] = None,
) -> None:
    """Measure a Kafka with a tier in front of it beside the same Kafka alone, in turns, with the same groups.

    Starts three brokers, three controllers and a tier of three nodes. Work: 1 CPU of all processes under
    heartbeats and commits, 2 rebalances of 100 members, 3 failover under 300 groups, 4 take-over and way back
    of very many offsets, while members commit; all of them are read back.
    """
    # Not at the top: every command of `groupd` imports this module.
    from bench.in_front.stand import Alone, Attached, Stand
    from bench.in_front.works import QUICK, WORKS, Sizes, scenarios
    from bench.peers.compared import command
    from bench.peers.compared.registry import works_numbered
    from bench.peers.options import Options

    options = Options(runs=1 if quick else runs, seconds=seconds, quick=quick, kafka_home=kafka_home)
    sizes = QUICK if quick else Sizes(groups, offsets)
    stand = Stand(options)

    def wanted() -> command.Wanted:
        todo = scenarios(works_numbered(work, WORKS), options, sizes)
        return command.Wanted((Alone(stand), Attached(stand)), todo, options, machine(), out)

    report = command.carry_out(wanted, console, draws=False)
    here = [each for each in report.outcomes if each.command == len(report.commands) - 1]
    if not here or any(each.failures or not each.samples for each in here):
        raise typer.Exit(1)
