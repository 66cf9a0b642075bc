"""Carries a repeat out: run after run into one directory, with their common figures beside them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer

from bench.swarm.runs import repeats, series
from bench.swarm.runs.repeats import Repeat
from bench.swarm.runs.reports import EXIT_NOT_RUN
from bench.swarm.runs.series import Ran, Run
from bench.swarm.told import compare
from bench.swarm.told.page import Headline, Section, note, page, plots, table
from cluster.cli.common import console
from cluster.cli.tables import print_table

JSON: Final = compare.REPEAT
PAGE: Final = "repeat.html"


def repeated(
    run: Run, given: dict[str, Any], directory: Path, seeds: Sequence[int], *, quiet: bool
) -> Repeat:
    """Carry out a run for each seed. The figures so far are written after every run. Raises TierError,
    OSError, and typer.Exit if not even the first run could begin."""
    series.require_new(directory, JSON)
    found = Repeat(Path(given["scenario"]).stem, len(seeds), ())
    for number, seed in enumerate(seeds, 1):
        if not quiet:
            console.print(f"\nRun {number} of {len(seeds)}, seed {seed}", style="bold", soft_wrap=True)
        try:
            ran = series.ran(run, given, directory / f"run-{number}", seed, quiet=quiet)
        except KeyboardInterrupt:
            found = found._replace(words=(f"run {number} was interrupted",))
            break
        if number == 1 and ran.report is None:
            raise typer.Exit(ran.exit_code)
        if not ran.is_whole or ran.report is None:
            found = found._replace(words=(_why_not(number, ran),))
            break
        finished = repeats.Run(ran.directory.name, seed, ran.exit_code, ran.report)
        found = found._replace(runs=(*found.runs, finished))
        _write(found, directory)
    _write(found, directory)
    if found.runs:
        (directory / PAGE).write_text(html(found), encoding="utf-8")
    return found


def exit_code(found: Repeat) -> int:
    """The exit code of the worst run; one that is missing was not shown."""
    is_whole = len(found.runs) == found.planned
    return series.worst([*found.exit_codes, *([] if is_whole else [EXIT_NOT_RUN])])


def _why_not(number: int, ran: Ran) -> str:
    if ran.report is not None:
        return f"run {number} was stopped before its end: it does not count"
    return f"run {number} could not run, or was not judged: those after it were not begun"


def _write(found: Repeat, directory: Path) -> None:
    told = repeats.plain(found) | {"command": shlex.join(["groupd", *sys.argv[1:]])}
    directory.mkdir(parents=True, exist_ok=True)
    beside = directory / f"{JSON}.new"
    beside.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    beside.replace(directory / JSON)


def show(found: Repeat, directory: Path) -> None:
    """Show it on a terminal; a pipe gets the same lines."""
    typer.echo("")
    width = len(repeats.HEADINGS)
    if found.runs:
        rows = ((*row, *[""] * (width - len(row))) for row in repeats.rows(found))
        print_table(console, repeats.HEADINGS, rows)
        typer.echo("")
        print_table(console, ("RUN", "SEED", "VERDICT", "BECAUSE"), repeats.verdicts(found))
    else:
        typer.echo("No run was finished.")
    for word in found.words:
        typer.echo(word)
    typer.echo(repeats.summary(found))
    if found.runs:
        typer.echo(f"Report: {directory / PAGE}")


def html(found: Repeat) -> str:
    """The figures as one page that needs nothing else."""
    headline = Headline(f"Repeated: {found.scenario}", repeats.summary(found), words=found.words)
    drawn = plots(compare.drawings(found.side_by_side()))
    figures = table(repeats.HEADINGS, repeats.rows(found))
    small = "Spread: from the least to the most, as a percentage of the median."
    judged = table(("run", "seed", "verdict", "because"), repeats.verdicts(found), text=(3,))
    return page(
        headline,
        [Section("Verdicts", judged), Section("Plots", drawn), Section("Figures", figures + note(small))],
    )
