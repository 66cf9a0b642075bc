"""Tables that never cut a name, however narrow the terminal is.

A cell is wrapped between words only. If even that does not fit, columns that a table can spare are left out
first; then each row becomes a paragraph with a line for each of its cells. In a pipe nothing is wrapped,
because `common.console` has all the room there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

GAP = 2
"""How many blanks stand between two columns."""
UNLIMITED = 100_000
"""How many characters a line has if nothing needs to be wrapped."""


class Table(RichTable):
    """A table without a frame. `spare` names headings of columns that a narrow terminal does without, the
    least important one first; `options` are those of rich's table."""

    def __init__(self, *headings: str, spare: Sequence[str] = (), **options: Any) -> None:
        frame = {"box": None, "pad_edge": False, "padding": (0, GAP, 0, 0), "title_justify": "left"}
        super().__init__(*headings, **frame | options)
        self._spare = spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = self.columns
        for spared in range(len(self._spare) + 1):
            columns = [column for column in whole if column.header not in self._spare[:spared]]
            measured = [_measured(console, options, column) for column in columns]
            gaps = sum(self.padding[1::2]) * (len(columns) - 1)
            widths = _widths(measured, options.max_width - gaps)
            if widths is not None:
                break
        else:
            yield from self._paragraphs(console)
            return
        self.columns = [replace(column, width=width) for column, width in zip(columns, widths, strict=True)]
        try:
            yield from super().__rich_console__(console, options)
        finally:
            self.columns = whole

    def _paragraphs(self, console: Console) -> RenderResult:
        if self.title:
            yield self.title
        headings = [console.render_str(str(column.header)).plain for column in self.columns]
        indent = max(map(len, headings), default=0) + GAP
        rows = zip(*(column.cells for column in self.columns), strict=True)
        for row, cells in zip(self.rows, rows, strict=True):
            for heading, cell in zip(headings, cells, strict=True):
                text = console.render_str(cell) if isinstance(cell, str) else cell
                yield Text.assemble((heading.ljust(indent), "bold"), text, style=row.style or "")
            yield ""


def _measured(console: Console, options: ConsoleOptions, column: Column) -> Measurement:
    """Return how much room a column needs for its longest word, and for its longest cell."""
    unlimited = options.update(width=UNLIMITED)
    cells = [Measurement.get(console, unlimited, cell) for cell in (column.header, *column.cells)]
    least = column.min_width or 0
    return Measurement(
        max(least, *(cell.minimum for cell in cells)), max(least, *(cell.maximum for cell in cells))
    )


def _widths(measured: Sequence[Measurement], width: int) -> list[int] | None:
    """Return a width for each column, `width` in all at most, so that no word is cut; None if there is not
    room enough. What is to spare goes to the columns in proportion to what they lack."""
    spare = width - sum(each.minimum for each in measured)
    lack = sum(each.span for each in measured)
    if spare < 0:
        return None
    if lack <= spare:
        return [each.maximum for each in measured]
    return [each.minimum + spare * each.span // lack for each in measured]
