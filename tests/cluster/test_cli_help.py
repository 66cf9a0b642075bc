"""`--help` of every command, on terminals of several widths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cluster.cli import app
from cluster.cli.command_help import PANELS_FROM_COLUMNS


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of `groupd` with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


@pytest.mark.parametrize("columns", [80, PANELS_FROM_COLUMNS])
def test_no_option_has_its_name_cut(columns: int) -> None:
    """A terminal of 80 columns once showed `--members-per-connection` as `--members-per-con…`."""
    found = dict(commands(typer.main.get_command(app)))
    assert ("swarm", "run") in found
    assert ("groups", "describe") in found
    for path, command in found.items():
        said = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(columns)}).stdout
        names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        missing = {name for name in names if name.startswith("--")} - set(re.split(r"[\s,/]", said))
        assert not missing, f"{path} on {columns} columns: {missing}"


def test_narrow_help_is_plain_text_whose_examples_can_be_copied() -> None:
    said = CliRunner().invoke(app, ["swarm", "run", "--help"], env={"COLUMNS": "80"}).stdout
    assert "[bold]" not in said
    assert "  groupd swarm run join-storm --bootstrap kafka-1:9092 --protocol cooperative-sticky\n" in said
