"""Make the page of all commands, COMMANDS.md: what `groupd --help` says, as tables.

`python -m cluster.cli.commands_page` prints the page; a test fails when the file is stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from typer.main import get_command

from cluster import cli

HEADING = """\
# Commands

Made by `python -m cluster.cli.commands_page > cluster/cli/COMMANDS.md`; a test compares them.

Every command has `--help` with examples and a non-zero exit code on failure; most have `--json`. `topics`,
`groups` and `offsets` work against any Kafka with `--bootstrap host:port` (`groups` and `offsets` from Kafka
3.0 on, and with `--command-config FILE`: TLS and SASL in librdkafka's property names).
How to use them: [first steps, groups, offsets](README.md).
"""
SINGLE = "The tier"
"""The heading of the commands that have no subcommands."""


def markdown() -> str:
    """Return the whole page: one table for each group of commands, in the order of `groupd --help`."""
    commands: Mapping[str, Any] = get_command(cli.app).commands  # type: ignore[attr-defined]
    single = [(name, command) for name, command in commands.items() if not _children(command)]
    lines = [HEADING, *_table(SINGLE, "", single)]
    for name, command in commands.items():
        if children := _children(command):
            itself = [("", command)] if command.invoke_without_command else []
            about = _first_sentence(command)
            lines += ["", *_table(f"groupd {name}", about, [*itself, *children.items()], name)]
    return "\n".join(lines) + "\n"


def _children(command: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(command, "commands", {})
    return found


def _table(title: str, about: str, rows: list[tuple[str, Any]], parent: str = "") -> Iterator[str]:
    yield from (f"## {title}", "")
    yield from (about, "") if about else ()
    yield from ("| command | what it does |", "|---|---|")
    for name, command in rows:
        yield f"| `{' '.join(filter(None, ('groupd', parent, name)))}` | {_first_sentence(command)} |"


def _first_sentence(command: Any) -> str:
    first = " ".join((command.help or "").split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".") + "."


if __name__ == "__main__":
    print(markdown(), end="")
