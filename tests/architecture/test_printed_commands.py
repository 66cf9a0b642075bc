"""Every `groupd` command that a page prints exists, with the options that it is printed with."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cluster import cli
from tests.architecture.tracked import tracked

ROOT = Path(__file__).resolve().parents[2]
PAGES = [path for path in tracked(ROOT) if path.suffix == ".md" and path.is_file()]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = r"(?:\.venv/bin/)?groupd ([a-z].*)"
BEFORE = {"": "", "sh": "", "console": r"\$ (?:.* && )?", "yaml": r"- run: "}
"""What stands before a command, by the language of the block of code."""


def printed(text: str) -> Iterator[str]:
    """The command lines of a page's blocks of code and of its quoted text, without `groupd`."""
    for language, block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines() if language in BEFORE else ():
            if found := re.match(BEFORE[language] + COMMAND, line):
                yield found[1]
    for quoted in re.findall(r"`groupd ([a-z][^`]*)`", BLOCK.sub("", text)):
        yield " ".join(quoted.split())


@cache
def groupd() -> Any:
    return get_command(cli.app)


def unknown(line: str) -> str:
    """What of a command line `groupd` does not know; "" if it knows all of it."""
    command = groupd()
    words = shlex.split(line.replace("...", ""), comments=True)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        return words[0]
    names = {"--help", *(name for each in command.params for name in (*each.opts, *each.secondary_opts))}
    return " ".join(
        word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in names
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    wrong = {line: what for line in printed(page.read_text(encoding="utf-8")) if (what := unknown(line))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("up --detach", ""),
        ("leaders", ""),
        ("topics create orders --partitions 12   # a comment", ""),
        ("topics forget", "forget"),
        ("topics create orders --pieces 12", "--pieces"),
    ],
)
def test_what_a_command_line_has_that_does_not_exist(line: str, what: str) -> None:
    assert unknown(line) == what


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_runs_exist(page: Path) -> None:
    named = re.findall(
        r"python3? -m ((?:actors|bench|cluster|storage|tests)[\w.]*)", page.read_text(encoding="utf-8")
    )
    files = [ROOT / name.replace(".", "/") for name in named]
    assert [
        str(path)
        for path in files
        if not (path / "__main__.py").is_file() and not path.with_suffix(".py").is_file()
    ] == []
