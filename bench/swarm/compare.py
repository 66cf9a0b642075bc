"""`groupd swarm compare`: reads two reports and shows them side by side, in a terminal, Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.swarm import charts
from bench.swarm.charts import Line
from bench.swarm.comparison import Comparison, Report, compared
from bench.swarm.page import Headline, Section, note, page, plots, table
from bench.swarm.report import RESULTS, VERSION

_SHAPES: Final = {
    "stable": "Time to stable",
    "rebalance": "Length of a rebalance",
    "without_coordinator": "Time without coordinator",
}
_COLOURS: Final = (charts.BLUE, charts.ORANGE)


class NoReport(ValueError):
    """Not a report.json of a version known here; says which file, and what to do."""


def compare(a: Path, b: Path) -> Comparison:
    """Of two report.json, or of directories that hold one. Raises NoReport, OSError."""
    paths = [path / RESULTS if path.is_dir() else path for path in (a, b)]
    first, second = (read(path) for path in paths)
    return compared(first, second, (_name(paths[0]), _name(paths[1])))


def _name(path: Path) -> str:
    return path.parent.resolve().name if path.name == RESULTS else path.name


def read(path: Path) -> dict[str, Any]:
    """A report.json. Raises NoReport, OSError."""
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
    """For a terminal."""
    names = [name.replace(": ", "\n", 1) for name in comparison.names]
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column("", overflow="fold")
    for name in (*names, "A / B"):
        shown.add_column(name, justify="right", overflow="fold", vertical="bottom")
    for part in comparison.parts:
        shown.add_row(f"[bold]{part.heading}[/bold]")
        for row in part.rows:
            label, *cells = row.cells
            shown.add_row(f"  {label}", *cells)
    console.print(shown)
    for remark in comparison.remarks:
        console.print(remark, style="dim", markup=False, soft_wrap=True)


def markdown(comparison: Comparison) -> str:
    """As a README takes it."""
    rows = [["", *comparison.names, "A / B"], ["---", "---:", "---:", "---:"]]
    for part in comparison.parts:
        rows += [[f"**{part.heading}**", "", "", ""], *(list(row.cells) for row in part.rows)]
    text = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
    return text + "\n\n" + "\n".join(f"* {remark}" for remark in comparison.remarks) + "\n"


def html(comparison: Comparison) -> str:
    """One page that needs nothing else."""
    headline = Headline("Two swarms compared", " · ".join(comparison.names), words=comparison.remarks[1:])
    columns = ("", *comparison.names, "A / B")
    rows: list[Sequence[str]] = []
    for part in comparison.parts:
        rows += [(part.heading,), *(row.cells for row in part.rows)]
    drawn = Section("Plots", plots(_plots(comparison)) + note(comparison.remarks[0]))
    return page(headline, [drawn, Section("Figures", table(columns, rows))])


def _plots(comparison: Comparison) -> Iterator[str]:
    named = list(zip(comparison.names, comparison.reports, _COLOURS, strict=True))
    for key, title in _SHAPES.items():
        shapes = {name: (_figures(report, "shapes_ms").get(key), colour) for name, report, colour in named}
        known = {name: (shape, colour) for name, (shape, colour) in shapes.items() if shape}
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
