"""How commands explain themselves: paragraphs that flow, and no name of an option is ever cut.

typer draws options as a table in a panel, whose columns are cut if the terminal is too narrow. Then the help
is plain text: a name that leaves no room beside it has a line of its own.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

PANELS_FROM_COLUMNS: Final = 120
"""How wide a terminal must be for typer's panels: names, ranges of values and what they mean have room beside
each other."""
NAMES_COLUMNS_MAX: Final = 34
"""How long a name may be to have its meaning beside it; longer names stand above what they mean."""
MEANING_COLUMNS_MIN: Final = 20
INDENT: Final = "  "


class Command(TyperCommand):
    """The class of the commands of any app of `groupd`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if Console().width >= PANELS_FROM_COLUMNS:
            super().format_help(ctx, formatter)
            return
        self.format_usage(ctx, formatter)
        formatter.write("\n" + "\n\n".join(self._paragraphs(formatter.width)) + "\n")
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            asked = [each for each in self.get_params(ctx) if each.param_type_name == kind]
            records = [record for each in asked if (record := each.get_help_record(ctx))]
            if records:
                formatter.write(f"\n{heading}:\n" + "\n".join(_defined(records, formatter.width)) + "\n")
        # Each example is a line that can be copied.
        for paragraph in (self.epilog or "").split("\n\n"):
            formatter.write(f"\n{INDENT}{Text.from_markup(paragraph).plain}")

    def _paragraphs(self, width: int) -> Iterator[str]:
        for paragraph in (self.help or "").split("\n\n"):
            yield textwrap.indent("\n".join(_wrapped(paragraph, width - len(INDENT))), INDENT)


def _defined(records: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield names, and what each means beside or below it."""
    column = min(max(len(f"{INDENT}{name}  ") for name, _ in records), NAMES_COLUMNS_MAX)
    for name, meaning in records:
        first = f"{INDENT}{name}  "
        lines = _wrapped(meaning, max(width - column, MEANING_COLUMNS_MIN))
        yield first.ljust(column) + lines.pop(0) if lines and len(first) <= column else first.rstrip()
        yield from (" " * column + line for line in lines)


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap a text between words only: a name that has hyphens stays whole here, too."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def tidy(app: typer.Typer) -> None:
    """Let all commands of an app explain themselves as `Command` does; typer keeps the line breaks of the
    source."""
    for command in app.registered_commands:
        text = inspect.cleandoc(command.help or (command.callback and command.callback.__doc__) or "")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            tidy(group.typer_instance)
