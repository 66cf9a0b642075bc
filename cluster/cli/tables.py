"""How tables are printed, of all commands: no name is ever cut, however narrow the terminal is.

`Table` is laid out by who reads it. In a pipe a row is a line, as wide as it has to be, without colours or
blanks at its end. On a terminal a cell is wrapped between words only. If even that does not fit, columns that
the table can spare are left out first; then each row becomes a paragraph with a line for each of its cells,
and a name that is longer than the terminal is left to the terminal to wrap: who copies it gets it whole.

Nothing else makes a table or a console: a test sees to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

GAP = 2
"""How many blanks stand between two columns."""
UNLIMITED = 100_000
"""How many characters a line of a pipe may have."""
LEAST_WRAPPED = 20
"""How many characters a line of a paragraph may have at least, however narrow the terminal is."""
_WORD = re.compile(r"\s*\S+\s*")


class Console(RichConsole):
    """A console that never cuts what is wider than the terminal, and that wraps nothing in a pipe. Who asks
    for colours in a pipe (FORCE_COLOR) gets them there; lines stay whole."""

    def __init__(self, **options: Any) -> None:
        file = options.get("file") or sys.stdout
        is_terminal = options.get("force_terminal") or file.isatty()
        super().__init__(**{"highlight": False, "width": None if is_terminal else UNLIMITED, **options})

    def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
        super().print(*objects, crop=crop, **options)


class Table(RichTable):
    """A table without a frame. A cell that is a str is shown as it is: brackets are no markup of rich's."""

    def __init__(
        self, *headings: str, spare: Sequence[str] = (), is_live: bool = False, **options: Any
    ) -> None:
        """Make a table. `spare` names headings of columns that a narrow terminal does without, the least
        important one first; `is_live` says that it is drawn again and again, so that each of its lines has to
        end where the terminal does; `options` are those of rich's table."""
        frame = {"box": None, "pad_edge": False, "padding": (0, GAP, 0, 0), "title_justify": "left"}
        super().__init__(*headings, **frame | options)
        self._spare = spare
        self._is_live = is_live

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells), **options)

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= UNLIMITED:
            yield from self._lines(console, options)
            return
        whole = self.columns
        for spared in range(len(self._spare) + 1):
            columns = [column for column in whole if column.header not in self._spare[:spared]]
            measured = [_measured(console, options, column) for column in columns]
            gaps = sum(self.padding[1::2]) * (len(columns) - 1)
            widths = _widths(measured, options.max_width - gaps)
            if widths is not None:
                break
        else:
            yield from self._paragraphs(console, options)
            return
        self.columns = [
            _fitted(console, column, width) for column, width in zip(columns, widths, strict=True)
        ]
        try:
            yield from super().__rich_console__(console, options)
        finally:
            self.columns = whole

    def _texts(self, console: RichConsole) -> Iterable[list[Text]]:
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield [_text(console, cell) for cell in cells]

    def _lines(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        """Yield a line for each row: cells side by side, those of numbers at their column's right."""
        if self.title:
            yield _text(console, self.title)
        rows = list(self._texts(console))
        headings = [_text(console, column.header) for column in self.columns]
        if self.show_header:
            rows.insert(0, headings)
        widths = [max((text.cell_len for text in cells), default=0) for cells in zip(*rows, strict=True)]
        for row in rows:
            line = ""
            for text, width, column in zip(row, widths, self.columns, strict=True):
                blanks = " " * (width - text.cell_len)
                is_right = column.justify == "right"
                line += (blanks + text.plain if is_right else text.plain + blanks) + " " * GAP
            yield Text(line.replace("\n", " ").rstrip(), no_wrap=True, overflow="ignore")

    def _paragraphs(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield _text(console, self.title)
        headings = [_text(console, column.header).plain.replace("\n", " ") for column in self.columns]
        indent = max(map(cell_len, headings), default=0) + GAP
        width = max(options.max_width - indent, LEAST_WRAPPED)
        # Only our own console leaves what is too wide to the terminal; any other cuts it.
        is_folded = self._is_live or not isinstance(console, Console)
        for row, cells in zip(self.rows, self._texts(console), strict=True):
            begins = [set_cell_size(heading, indent) for heading in headings]
            if not any(headings):
                begins[0] = ""  # a row without headings begins with its name
            for begin, cell in zip(begins, cells, strict=True):
                lines = cell.wrap(console, width, overflow="fold") if is_folded else _wrapped(cell, width)
                for number, line in enumerate(lines or [cell]):
                    begun = (" " * indent if number else begin, "bold")
                    shown = Text.assemble(begun, line, style=row.style or "", no_wrap=True, overflow="ignore")
                    shown.rstrip()
                    yield shown
            yield ""


def print_table(console: RichConsole, names: Sequence[str] | None, rows: Iterable[Sequence[Any]]) -> None:
    """Print a table of plain text: a line of column names, if there are any, and a line for each row."""
    rows = [[str(cell) for cell in row] for row in rows]
    table = Table(show_header=names is not None, header_style="")
    for name in names if names is not None else [""] * max(map(len, rows), default=0):
        table.add_column(Text(name))
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _text(console: RichConsole, cell: Any) -> Text:
    """Return what a cell, a heading or a title says; a bar of progress says nothing."""
    if isinstance(cell, str):
        return console.render_str(cell)
    return cell if isinstance(cell, Text) else Text()


def _fitted(console: RichConsole, column: Column, width: int) -> Column:
    """Return the column with its cells in lines of `width` characters. rich's own wrapping cuts a word of
    wide characters that just fits."""

    def fitted(cell: RenderableType) -> RenderableType:
        if not isinstance(cell, str | Text):
            return cell
        return Text("\n").join(_wrapped(_text(console, cell), width))

    return replace(
        column, width=width, header=fitted(column.header), _cells=[fitted(cell) for cell in column.cells]
    )


def _wrapped(text: Text, width: int) -> list[Text]:
    """Return the text in lines of `width` characters, wrapped between words only."""
    lines: list[Text] = []
    for line in text.split(allow_blank=True):
        breaks, used = [], 0
        for word in _WORD.finditer(line.plain):
            wide = cell_len(word[0].rstrip())
            if used and used + wide > width:
                breaks.append(word.start())
                used = 0
            used += cell_len(word[0])
        lines += line.divide(breaks)
    for line in lines:
        line.rstrip()
    return lines


def _measured(console: RichConsole, options: ConsoleOptions, column: Column) -> Measurement:
    """Return how much room a column needs for its longest word, and for its longest cell."""
    unlimited = options.update(width=UNLIMITED)
    cells = [Measurement.get(console, unlimited, cell) for cell in (column.header, *column.cells)]
    most = max(column.min_width or 0, *(cell.maximum for cell in cells))
    if column.no_wrap:
        return Measurement(most, most)
    return Measurement(max(column.min_width or 0, *(cell.minimum for cell in cells)), most)


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
