"""What all commands share: options, errors as one line, JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from cluster.cli.tables import Console
from cluster.settings import SettingsError
from cluster.tier_file import DATA_DIR_DEFAULT as DATA_DIR_DEFAULT
from cluster.tier_file import TierError

console = Console()
"""The console of all commands."""
EXIT_FAILED = 1
EXIT_WRONG_SETTING = 2
EXIT_INTERRUPTED = 130

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DataDirOption = Annotated[
    Path,
    typer.Option(
        "--data-dir", help="The tier's data directory.", envvar="GROUPD_DATA_DIR", show_default=True
    ),
]
SettingsFileOption = Annotated[
    Path | None, typer.Option("--config", help="A TOML file of settings, or a server.properties.")
]
BootstrapOption = Annotated[
    str | None,
    typer.Option("--bootstrap", help="host:port of any Kafka; default: the tier in --data-dir."),
]


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """End the command with one line on standard error."""
    sys.stdout.flush()
    typer.echo(f"groupd: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def errors() -> Iterator[None]:
    """Turn what the user can mend into one line and an exit code: 2 for a wrong setting, else 1."""
    try:
        yield
    except SettingsError as error:
        fail(str(error), EXIT_WRONG_SETTING)
    except TierError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("interrupted", EXIT_INTERRUPTED)


def assignments(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    """Return what NAME=VALUE of an option that may be repeated says. Raises TierError."""
    parsed = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise TierError(f"{option} {text}: NAME=VALUE is expected")
        parsed[name] = value
    return parsed


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, never wrapped: a pipe reads them as well as a person does."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def leave(code: int = 0) -> NoReturn:
    """End the process now: a connection to Ray or Kafka must not hold the command up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def examples(*lines: str) -> str:
    """Return the epilog of a command's help, with these examples."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  {line}" for line in lines)
