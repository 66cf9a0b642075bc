"""`groupd bench attached`, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.ground.machine import machine
from cluster.cli.common import console
from cluster.cli.tables import Table

if TYPE_CHECKING:
    from bench.attached.story import Result


def register(app: typer.Typer) -> None:
    """Add the command."""
    examples = (
        "[bold]Examples[/bold]\n\n  groupd bench attached\n\n"
        "  groupd bench attached --consumers 14 --rounds 1 --record ~/attached"
    )
    app.command("attached", epilog=examples)(_attached)


def _attached(
    consumers: Annotated[int, typer.Option(help="Consumers of all groups together.", min=1)] = 28,
    rounds: Annotated[int, typer.Option(help="How often the groups go to the tier and back.", min=1)] = 2,
    per_second: Annotated[
        float, typer.Option(help="Records per second, which every group reads.", min=1)
    ] = 20.0,
    deadline: Annotated[
        float, typer.Option(help="Seconds that a group has to catch up after each step.", min=1)
    ] = 120.0,
    record: Annotated[
        Path | None, typer.Option(help="Keep here what the consumers wrote down.", file_okay=False)
    ] = None,
    kafka_home: Annotated[
        Path | None,
        typer.Option(envvar="KAFKA_HOME", help="A Kafka 4 distribution, or a directory with its jars."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Attach a tier to a real Kafka, break and upgrade both, and detach it, while real consumers work.

    Starts three brokers, three controllers, a tier of three nodes, a producer and consumers of seven
    configurations, one of which commits in transactions. Kills leaders, a broker and the active controller,
    restarts everything of Kafka's, and judges what the consumers wrote down. Exit code 1: a promise was
    broken.
    """
    from bench.attached import story  # not at the top: every command imports this module
    from bench.attached.site import CannotRun
    from bench.clients.programs import CannotRunError

    plan = story.Plan(consumers, rounds, per_second, deadline, kafka_home, record)
    say = (
        (lambda _: None) if as_json else (lambda what: console.print(f"[dim]·[/dim] {what}", highlight=False))
    )
    try:
        result = story.run(plan, say)
    except (CannotRun, CannotRunError, RuntimeError, TimeoutError) as error:
        typer.echo(f"groupd: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        rows = [row._asdict() for row in result.rows]
        typer.echo(json.dumps({"machine": machine(), **result._asdict(), "rows": rows}, indent=2))
    else:
        _show(result)
    if result.findings:
        raise typer.Exit(1)


def _show(result: Result) -> None:
    table = Table("step", title=f"{result.software}; {machine()}")
    table.add_column("took s", justify="right")
    table.add_column("all caught up, s later", justify="right")
    table.add_column("longest gap s", justify="right")
    table.add_column("of")
    for row in result.rows:
        later = "never" if row.slowest_s is None else f"{row.slowest_s:.1f}"
        table.add_row(row.step, f"{row.took_s:.1f}", later, f"{row.gap_s:.1f}", row.gap_group)
    console.print(table)
    shares = ", ".join(f"{count} {name}" for name, count in result.consumers.items())
    console.print(f"Consumers: {shares}.")
    console.print(
        f"{result.records:,} records were read by each of {len(result.consumers)} groups; "
        f"{result.commits:,} commits were acknowledged; all of it took {result.seconds:.0f} s."
    )
    for words in result.findings:
        console.print(f"wrong: {words}", markup=False)
    console.print(f"{len(result.findings)} findings" if result.findings else "no promise was broken")
