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
from tests.architecture.test_language import FRAGMENT

RULE_ID = re.compile(r"\b[A-Z]\d{1,2}\b")
LEANS = re.compile(r"(?:Only )?(?:in all|this one|those with|the same|another)\b", re.IGNORECASE)
"""How a help text begins that only says something beside the texts of other options."""


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of `groupd` with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


@pytest.mark.parametrize("columns", [80, PANELS_FROM_COLUMNS])
def test_no_option_has_its_name_cut(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal of 80 columns once showed `--members-per-connection` as `--members-per-con…`."""
    monkeypatch.setenv("COLUMNS", str(columns))
    groupd = typer.main.get_command(app)
    found = dict(commands(groupd))
    assert ("swarm", "run") in found
    assert ("groups", "describe") in found
    for path, command in found.items():
        with pytest.raises(SystemExit):
            groupd.main([*path, "--help"])
        said = capsys.readouterr().out
        names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        missing = {name for name in names if name.startswith("--")} - set(re.split(r"[\s,/]", said))
        assert not missing, f"{path} on {columns} columns: {missing}"


def test_every_option_says_what_it_is_for() -> None:
    """A help such as "Of each load." or "Only this one." once had to be guessed from its option's name."""
    found = {
        f"groupd {' '.join(path)} {option.opts[0]}": option.help or ""
        for path, command in commands(typer.main.get_command(app))
        for option in command.params
    }
    assert len(found) > 200
    wrong = {
        option: text
        for option, text in found.items()
        if not re.match(r"\w+\W+\w+", text) or FRAGMENT.match(text) or LEANS.match(text)
    }
    assert wrong == {}


def test_no_help_sends_its_reader_to_a_rule_by_its_id() -> None:
    """Users of the command line know Kafka and not the ids of `actors/coordinator/RULES.md`."""
    wrong = [
        (*path, found)
        for path, command in commands(typer.main.get_command(app))
        for text in (command.help, command.epilog, *(option.help for option in command.params))
        for found in RULE_ID.findall(text or "")
    ]
    assert wrong == []


def test_narrow_help_is_plain_text_whose_examples_can_be_copied() -> None:
    said = CliRunner().invoke(app, ["swarm", "run", "--help"], env={"COLUMNS": "80"}).stdout
    assert "[bold]" not in said
    assert "  groupd swarm run join-storm --bootstrap kafka-1:9092 --protocol cooperative-sticky\n" in said
