"""Writes the figures as tables of medians, one for each kind of work and unit, with remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from bench.peers.plan import ALWAYS, Report, Row, part_of, unit_of
from cluster.cli.tables import Table

FOREIGN_MAX: Final = 0.1
"""If other programs have more than this share of the processors, the figures say as much about them as about
the peers."""
LABEL_WIDTH: Final = 33


class Line(NamedTuple):
    """One figure of one scenario: a cell for each peer, and for each of `Report.pairs`."""

    label: str
    cells: Sequence[str]
    ratios: Sequence[str]
    goal: str


class Section(NamedTuple):
    """The lines of a heading that have a unit in common."""

    work: int
    heading: str
    unit: str
    lines: list[Line]


def sections(report: Report) -> list[Section]:
    """Sections in the order of work, heading and unit; figures that nobody has are left out."""
    found: dict[tuple[int, str, str], Section] = {}
    for row in report.rows:
        for figure in row.shown:
            if not _says_something(report, row, figure):
                continue
            key = (row.work, row.heading, unit_of(figure))
            section = found.setdefault(key, Section(*key, []))
            section.lines.append(_line(report, row, figure))
    return list(found.values())


def _says_something(report: Report, row: Row, figure: str) -> bool:
    """Whether a figure is shown: some peer has it, and one without Ray's processes differs from that with
    them."""
    outcomes = [each for each in report.outcomes if (each.row.work, each.row.name) == (row.work, row.name)]
    with_ray = figure.removeprefix("own_")
    return any(each.values(figure) for each in outcomes) and (
        figure == with_ray or any(each.values(figure) != each.values(with_ray) for each in outcomes)
    )


def _line(report: Report, row: Row, figure: str) -> Line:
    part = part_of(figure)
    return Line(
        label=f"{row.label}: {part}" if part else row.label,
        cells=[_cell(report, row, peer, figure) for peer in report.peers],
        ratios=[_ratio(report.ratio(row, figure, *pair)) for pair in report.pairs],
        goal=_goal(report, row, figure),
    )


def _cell(report: Report, row: Row, peer: str, figure: str) -> str:
    outcome = report.outcome(row, peer)
    middle = None if outcome is None else outcome.median(figure)
    if outcome is None or middle is None:
        return "-"
    return number(middle) + ("*" if outcome.marks or outcome.failures else "")


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _goal(report: Report, row: Row, figure: str) -> str:
    """The goals of our tier, with "!" where one is missed."""
    told: dict[str, None] = {}
    for (peer, of_figure), limit in row.goals.items():
        outcome = report.outcome(row, peer)
        middle = None if outcome is None else outcome.median(figure)
        if of_figure == figure and middle is not None:
            told[f"{limit:g}{'' if middle <= limit else '!'}"] = None
    return " ".join(told)


def number(value: float) -> str:
    """A number with three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def show(console: Console, report: Report) -> None:
    """Print tables of at most 120 columns, and remarks below them."""
    console.print(f"{report.machine}\n[dim]{conditions(report)}[/dim]")
    for section in sections(report):
        console.print(_table(report, section))
    console.print()
    for line in remarks(report):
        console.print(line, markup=False)


def _table(report: Report, section: Section) -> Table:
    title = f"\n{section.work} {section.heading} [dim]· {section.unit}[/dim]"
    table = Table(title=title, title_style="bold")
    table.padding = (0, 1, 0, 0)
    table.add_column("", min_width=LABEL_WIDTH)
    for peer in report.peers:
        table.add_column(peer, justify="right", no_wrap=True, min_width=7)
    for ours, theirs in report.pairs:
        table.add_column(_heading(ours, theirs), justify="right", no_wrap=True, style="bold", min_width=4)
    table.add_column("goal", justify="right", no_wrap=True)
    for line in section.lines:
        goal = Text(line.goal, style="red" if "!" in line.goal else "green")
        table.add_row(line.label, *line.cells, *line.ratios, goal)
    return table


def _heading(ours: str, theirs: str) -> str:
    """The heading of a column with our figure divided by Kafka's."""
    return f"{'' if ours in ALWAYS else ours[0]}{ours[-1]}/{theirs[-1]}"


def conditions(report: Report) -> str:
    runs = sorted({command.runs for command in report.commands})
    seconds = sorted({f"{command.seconds:g}" for command in report.commands})
    at_most = "" if all(command.is_whole for command in report.commands) else "at most "
    parts = [
        f"medians of {at_most}{' or '.join(map(str, runs))} interleaved runs",
        f"loads of {' or '.join(seconds)} s",
    ]
    if report.quick:
        parts.append("quick: small sizes, JVMs not warm, no figures to be quoted")
    foreign = report.foreign
    if foreign is not None:
        again = ": measure again on a quiet machine" if foreign > FOREIGN_MAX else ""
        parts.append(f"other programs and idle peers had {foreign:.0%} of the processors{again}")
    return "; ".join(parts)


def remarks(report: Report) -> Iterator[str]:
    """The remarks: with what the figures were measured, and why cells are empty or marked."""
    means = ", ".join(f"{_heading(*pair)}: {pair[0]} / {pair[1]}" for pair in report.pairs)
    yield f"{means}; below 1 ours takes less; !: a goal is missed"
    told: dict[tuple[str, str], list[str]] = {}
    for outcome in report.outcomes:
        mark = "* " if outcome.samples else ""
        for reason in (outcome.refused, *(f"failed: {failure}" for failure in outcome.failures)):
            if reason:
                told.setdefault((f"{mark}{outcome.peer}", reason), []).append(outcome.row.name)
        for mark in sorted(outcome.marks):
            told.setdefault((f"* {outcome.peer}", mark), []).append(outcome.row.name)
    for (peer, reason), names in told.items():
        yield f"{peer}: {reason} ({'; '.join(names)})"
    for peer, version in report.peers.items():
        yield f"{peer}: {version}"
    for peer, reason in report.skipped.items():
        yield f"{peer} skipped: {reason}"
    for command in report.commands:
        end = "" if command.is_whole else " (stopped before its end)"
        yield f"{command.date}: {command.line}{end}"
