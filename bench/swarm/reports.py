"""`groupd swarm report` and `groupd swarm compare`, and how a run ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.swarm.scenario import BadScenario
from cluster.cli.common import JsonOption, console, examples, fail, print_json
from cluster.tier_file import TierError
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN
from storage.history.judge.verdict import Verdict

EXIT_BROKEN: Final = 1
EXIT_NOT_RUN: Final = 2
EXITS: Final = {KEPT: 0, BROKEN: EXIT_BROKEN, NOT_SHOWN: EXIT_NOT_RUN}
"""Exit codes by the verdict's status."""
STYLES: Final = {KEPT: "bold green", BROKEN: "bold red", NOT_SHOWN: "bold yellow"}


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("groupd swarm report groupd-swarm/steady-20261122-101500"))(report)
    app.command(
        epilog=examples(
            "groupd swarm compare ours/report.json kafka/report.json",
            "groupd swarm compare ours kafka --html compared.html",
            "groupd swarm compare before-repeated after-repeated --markdown",
        )
    )(compare)


def report(
    directory: Annotated[Path, typer.Argument(help="A run's directory.", metavar="DIR")],
    as_json: JsonOption = False,
) -> None:
    """Judge a run again and write its report.html and report.json, of an interrupted run, too."""
    tell(directory, as_json=as_json)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more of: a run's or a repeat's directory, a report.json.", metavar="A B..."
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="Write it there as a page with plots, too.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of text.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Set two runs or more side by side, as ours and Kafka's; of repeats their medians, with intervals."""
    from bench.swarm import compare as comparing

    with mendable(comparing.NoReport):
        compared = comparing.compare(runs)
        if html is not None:
            html.write_text(comparing.html(compared), encoding="utf-8")
    if as_json:
        parts = [
            {"heading": part.heading, "rows": [row.plain() for row in part.rows]} for part in compared.parts
        ]
        print_json({"names": compared.names, "parts": parts, "remarks": compared.remarks})
    elif markdown:
        typer.echo(comparing.markdown(compared))
    else:
        comparing.show(console, compared)


def tell(directory: Path, *, as_json: bool) -> None:
    """Judge and report. Ends the command unless every promise was shown to be kept."""
    from bench.swarm import report as reporting

    try:
        with mendable(reporting.NothingToReport):
            outcome = reporting.report(directory, console=None if as_json else console)
    except KeyboardInterrupt:
        fail(f"interrupted; the run is kept: groupd swarm report {directory}", EXIT_NOT_RUN)
    if as_json:
        typer.echo((directory / reporting.RESULTS).read_text(encoding="utf-8"))
    else:
        for line in outcome.lines:
            console.print(line, soft_wrap=True, markup=False)
        show(outcome.verdict)
        console.print(f"Report: {outcome.page}", soft_wrap=True, markup=False)
    leave_with(outcome.verdict.status)


def show(verdict: Verdict) -> None:
    """Each promise in a line, then all of them in one."""
    for promise in verdict.promises:
        line = f"{promise.name:<9}  {promise.status:<9}  {promise.because}"
        console.print(line, style=STYLES[promise.status].removeprefix("bold "), soft_wrap=True, markup=False)
    console.print(
        f"{verdict.status}: {verdict.because}", style=STYLES[verdict.status], soft_wrap=True, markup=False
    )


def leave_with(status: str) -> None:
    """Ends the command with the exit code of a verdict that is not kept."""
    if status != KEPT:
        raise typer.Exit(EXITS[status])


@contextmanager
def mendable(*more: type[Exception]) -> Iterator[None]:
    """What the user can mend is told in a line each, with exit code 2."""
    mended: tuple[type[Exception], ...] = (BadScenario, TierError, OSError, *more)
    try:
        yield
    except mended as error:
        fail(str(error), EXIT_NOT_RUN)
