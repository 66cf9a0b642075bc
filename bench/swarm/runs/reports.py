"""`groupd swarm report` and `groupd swarm compare`, and how a run ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.swarm.counted import marks_file
from bench.swarm.counted.marks import BadMarks
from bench.swarm.planning import thresholds
from bench.swarm.planning.scenario import BadScenario
from bench.swarm.planning.thresholds import BadThreshold, Checked
from bench.swarm.runs import flags
from bench.swarm.told.ci_files import Asked
from cluster.cli.common import JsonOption, console, examples, fail, print_json
from cluster.tier_file import TierError
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN
from storage.history.judge.verdict import Verdict

EXIT_BROKEN: Final = 1
EXIT_NOT_RUN: Final = 2
EXITS: Final = {KEPT: 0, BROKEN: EXIT_BROKEN, NOT_SHOWN: EXIT_NOT_RUN}
"""The exit codes by the verdict's status."""
STYLES: Final = {KEPT: "bold green", BROKEN: "bold red", NOT_SHOWN: "bold yellow"}


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "groupd swarm report groupd-swarm/steady-20261122-101500",
            'groupd swarm report my-run --threshold "p99(OffsetCommit) < 50ms" --junit swarm.xml',
        )
    )(report)
    app.command(
        epilog=examples(
            "groupd swarm export groupd-swarm/steady-20261122-101500 --parquet tables",
            "groupd swarm export groupd-swarm/steady-20261122-101500 --csv tables",
        )
    )(export)
    app.command(
        epilog=examples(
            "groupd swarm compare ours/report.json kafka/report.json",
            "groupd swarm compare ours kafka --html compared.html",
            "groupd swarm compare before-repeated after-repeated --markdown",
        )
    )(compare)


def report(
    directory: Annotated[Path, typer.Argument(help="A run's directory.", metavar="DIR")],
    threshold: flags.Thresholds = None,
    junit: flags.Junit = None,
    summary: flags.Summary = None,
    mark: flags.Mark = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a run again and write its report.html, report.json and seconds.csv, of an interrupted run, too.

    Its own thresholds hold, and those given here instead of or beside them.
    """
    asked = Asked(tuple(threshold or ()), junit, summary, mark)
    with mendable(BadThreshold, BadMarks):
        asked.check()
    tell(directory, as_json=as_json, asked=asked)


def export(
    directory: Annotated[Path, typer.Argument(help="A run's directory.", metavar="DIR")],
    parquet: Annotated[
        Path | None, typer.Option(help="Write Parquet files into this directory.", file_okay=False)
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write CSV files into this directory.", file_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run's record as tables for data frames, SQL and spreadsheets; RECORD.md has the columns."""
    wanted = {"parquet": parquet, "csv": csv}
    chosen = [(out, kind) for kind, out in wanted.items() if out is not None]
    if not chosen:
        fail("--parquet OUT or --csv OUT says where to", EXIT_NOT_RUN)
    from bench.swarm.told import export as exporting
    from bench.swarm.told.report import NothingToReport

    with mendable(NothingToReport):
        for out, kind in chosen:
            done = exporting.export(directory, out, kind)
    if as_json:
        print_json({"rows": done.rows, "cut_bytes": done.cut_bytes})
        return
    for out, kind in chosen:
        for name, rows in done.rows.items():
            console.print(f"{out / f'{name}.{kind}'}: {rows:,} rows", soft_wrap=True, markup=False)
    if done.cut_bytes:
        console.print(f"{done.cut_bytes:,} bytes of rows that were cut short are left out", soft_wrap=True)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more of: a run's or a repeat's directory, a report.json.", metavar="A B..."
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(help="Write the comparison into this file, too, as a page with plots.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of text.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Set two runs or more side by side, as ours and Kafka's; of repeats their medians, with intervals."""
    from bench.swarm.told import compare as comparing

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


def tell(directory: Path, *, as_json: bool, asked: Asked | None = None) -> None:
    """Judge and report a run. Ends the command unless every promise and threshold was shown to be kept."""
    from bench.swarm.replay import kept
    from bench.swarm.told import report as reporting

    asked = asked or Asked()
    try:
        with mendable(reporting.NothingToReport, BadThreshold, BadMarks):
            if asked.marks is not None:
                marks_file.keep(asked.marks, directory)
            shown, more = None if as_json else console, kept.addition(directory)
            outcome = reporting.report(directory, console=shown, more=more, extra_thresholds=asked.thresholds)
            asked.write(outcome.results, outcome.lines)
    except KeyboardInterrupt:
        fail(f"interrupted; the run is kept: groupd swarm report {directory}", EXIT_NOT_RUN)
    if as_json:
        typer.echo((directory / reporting.RESULTS).read_text(encoding="utf-8"))
    else:
        for line in outcome.lines:
            console.print(line, soft_wrap=True, markup=False)
        show(outcome.verdict, outcome.checked)
        console.print(f"Report: {outcome.page}", soft_wrap=True, markup=False)
    leave_with(outcome.status)


def show(verdict: Verdict, checked: Sequence[Checked] = ()) -> None:
    """Print each promise and each threshold in a line, then all of them in one."""
    told = [(each.name, each.status, each.because) for each in verdict.promises]
    told += [(each.text, each.status, each.because) for each in checked]
    width = max((len(name) for name, _, _ in told), default=0)
    for name, status, because in told:
        line = f"{name:<{width}}  {status:<9}  {because}"
        console.print(line, style=STYLES[status].removeprefix("bold "), soft_wrap=True, markup=False)
    status = thresholds.worst((verdict.status, thresholds.status_of(checked)))
    because = "; ".join((verdict.because, *thresholds.missed(checked)))
    console.print(f"{status}: {because}", style=STYLES[status], soft_wrap=True, markup=False)


def leave_with(status: str) -> None:
    """End the command with the verdict's exit code, unless it is kept."""
    if status != KEPT:
        raise typer.Exit(EXITS[status])


@contextmanager
def mendable(*more: type[Exception]) -> Iterator[None]:
    """Tell errors that the user can mend in a line each, with exit code 2."""
    mended: tuple[type[Exception], ...] = (BadScenario, TierError, OSError, *more)
    try:
        yield
    except mended as error:
        fail(str(error), EXIT_NOT_RUN)
