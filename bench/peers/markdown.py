"""Writes the figures as one table of Markdown, for a README."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers.plan import Report
from bench.peers.table import conditions, remarks, sections


def text(report: Report) -> str:
    """Write machine and conditions, the table of medians, and remarks."""
    return "\n".join((*_head(report), "", *_table(report), "", *_notes(report), ""))


def _head(report: Report) -> Iterator[str]:
    yield f"{report.machine}. {conditions(report).capitalize()}."


def _table(report: Report) -> Iterator[str]:
    ratios = [f"{ours} / {theirs}" for ours, theirs in report.pairs]
    yield _row(["work", "", *report.peers, *ratios])
    yield _row(["---", "---", *["---:"] * (len(report.peers) + len(ratios))])
    for section in sections(report):
        yield _row([f"**{section.heading}**", section.unit, *[""] * (len(report.peers) + len(ratios))])
        for line in section.lines:
            yield _row([line.label, "", *line.cells, *line.ratios])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _notes(report: Report) -> Iterator[str]:
    for remark in remarks(report):
        yield "* " + remark.replace("*", "\\*")
