"""`groupd swarm compare` reads reports and shows them side by side, in a terminal, as Markdown and as
HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from bench.swarm.told import charts
from bench.swarm.told.charts import Line
from bench.swarm.told.comparison import SUBJECTS_MAX, Comparison, Report, Subject, compared
from bench.swarm.told.page import Headline, Section, note, page, plots, table
from bench.swarm.told.report import RESULTS, VERSION
from cluster.cli.tables import Table, print_table

REPEAT: Final = "repeat.json"
"""The file that `groupd swarm repeat` writes: the runs of its directory are several samples of one
subject."""
_SHAPES: Final = {
    "stable": "Time to stable",
    "rebalance": "Length of a rebalance",
    "without_coordinator": "Time without coordinator",
}
_COLOURS: Final = (charts.BLUE, charts.ORANGE, charts.GREEN, charts.RED, charts.PURPLE, charts.GREY)
_NARROW_MAX: Final = 2
"""How many subjects' names fit above their columns."""


class NoReport(ValueError):
    """A file is no report.json of a known version; the text says which file, and what to do."""


def compare(paths: Sequence[Path]) -> Comparison:
    """Compare two report.json or more, or directories that hold one, or several. Raises NoReport, OSError."""
    if not 2 <= len(paths) <= SUBJECTS_MAX:
        raise NoReport(f"{len(paths)} given: 2 to {SUBJECTS_MAX} runs are compared")
    return compared([_subject(path) for path in paths])


def _subject(path: Path) -> Subject:
    repeat = path if path.name == REPEAT else path / REPEAT
    if repeat.is_file():
        reports = [read(repeat.parent / name / RESULTS) for name in _runs(repeat)]
        if not reports:
            raise NoReport(f"{repeat}: none of its runs was finished")
        return Subject(repeat.parent.resolve().name, tuple(reports))
    results = path / RESULTS if path.is_dir() else path
    name = results.parent.resolve().name if results.name == RESULTS else results.name
    return Subject(name, (read(results),))


def _runs(repeat: Path) -> list[str]:
    """The directories of a repeat's runs. Raises NoReport."""
    try:
        return [str(run["directory"]) for run in json.loads(repeat.read_text(encoding="utf-8"))["runs"]]
    except (ValueError, KeyError, TypeError) as error:
        raise NoReport(f"{repeat} is no file of `groupd swarm repeat`: {error}") from None


def read(path: Path) -> dict[str, Any]:
    """Read a report.json. Raises NoReport, OSError."""
    if not path.exists():
        raise NoReport(f"{path}: there is no such report; `groupd swarm report DIR` writes it")
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NoReport(f"{path} is no report: {error}") from error
    if not isinstance(report, dict) or report.get("version") != VERSION:
        raise NoReport(f"{path} is no report of version {VERSION}: `groupd swarm report DIR` writes one")
    return report


def show(console: Console, comparison: Comparison) -> None:
    """Show it on a console: no name and no figure is cut."""
    if len(comparison.names) > _NARROW_MAX or _has_intervals(comparison):
        _show_wide(console, comparison)
    else:
        _show_pair(console, comparison)
    for remark in comparison.remarks:
        console.print(remark, style="dim", markup=False, soft_wrap=True)


def _show_pair(console: Console, comparison: Comparison) -> None:
    names = [name.replace(": ", "\n", 1) for name in comparison.names]
    shown = Table("")
    for name in (*names, *comparison.ratio_names):
        shown.add_column(Text(name), justify="right", vertical="bottom")
    for part in comparison.parts:
        shown.add_row(Text(part.heading, style="bold"))
        for row in part.rows:
            label, *cells = row.cells
            shown.add_row(f"  {label}", *cells)
    console.print(shown)


def _show_wide(console: Console, comparison: Comparison) -> None:
    """Show the names first, then columns that are headed by their letters."""
    for name in comparison.names:
        console.print(name, markup=False, soft_wrap=True)
    letters = [name.partition(":")[0] for name in comparison.names]
    rows: list[Sequence[str]] = [("", *letters, *comparison.ratio_names)]
    blank = [""] * (len(rows[0]) - 1)
    for part in comparison.parts:
        rows.append((part.heading, *blank))
        for row in part.rows:
            label, *cells = row.cells
            rows.append((f"  {label}", *cells))
    print_table(console, rows[0], rows[1:])


def _has_intervals(comparison: Comparison) -> bool:
    return any(len(subject.reports) > 1 for subject in comparison.subjects)


def markdown(comparison: Comparison) -> str:
    """Write it as Markdown, for a README."""
    headings = ["", *comparison.names, *comparison.ratio_names]
    rows = [headings, ["---", *["---:"] * (len(headings) - 1)]]
    for part in comparison.parts:
        rows.append([f"**{part.heading}**", *[""] * (len(headings) - 1)])
        rows += [list(row.cells) for row in part.rows]
    text = "\n".join(f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows)
    return text + "\n\n" + "\n".join(f"* {remark}" for remark in comparison.remarks) + "\n"


def _escaped(cell: str) -> str:
    """A cell with its bars and stars escaped: they would end the cell or begin emphasis."""
    return cell.replace("|", "/") if cell.startswith("**") else cell.replace("|", "/").replace("*", "\\*")


def html(comparison: Comparison) -> str:
    """The comparison as one page that needs nothing else."""
    count = len(comparison.names)
    title = "Two swarms compared" if count == 2 else f"{count} swarms compared"
    headline = Headline(title, " · ".join(comparison.names), words=comparison.remarks[1:])
    drawn = Section("Plots", plots(drawings(comparison)) + note(comparison.remarks[0]))
    return page(headline, [drawn, Section("Figures", figures_table(comparison))])


def figures_table(comparison: Comparison) -> str:
    """The table of all rows, for a page."""
    rows: list[Sequence[str]] = []
    for part in comparison.parts:
        rows += [(part.heading,), *(row.cells for row in part.rows)]
    return table(("", *comparison.names, *comparison.ratio_names), rows)


def drawings(comparison: Comparison) -> Iterator[str]:
    """The plots, with a line for each run; runs of one subject have one colour."""
    named = [
        (name if not place else "", report, colour)
        for name, subject, colour in zip(comparison.names, comparison.subjects, cycle(_COLOURS), strict=False)
        for place, report in enumerate(subject.reports)
    ]
    for key, title in _SHAPES.items():
        shapes = [(name, _figures(report, "shapes_ms").get(key), colour) for name, report, colour in named]
        known = [(name, shape, colour) for name, shape, colour in shapes if shape]
        if known:
            yield charts.distribution(title, known)
    for key, title in (("settled", "Members settled"), ("without_coordinator", "Groups without coordinator")):
        steps = {_figures(report, "seconds").get("step_s") for _, report, _ in named}
        if len(steps) == 1 and (step_s := steps.pop()):
            lines = [
                Line(name, _figures(report, "seconds")[key], colour, True) for name, report, colour in named
            ]
            yield charts.over_time(title, lines, step_s)


def _figures(report: Report, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (report.get("figures") or {}).get(name) or {}
    return found
