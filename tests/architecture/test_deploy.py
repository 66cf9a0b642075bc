"""What deploy/ runs exists: the commands of the unit and of the manifest, with their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_printed_commands import unknown

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.suffix in (".service", ".yaml")]
COMMAND = re.compile(r"\bgroupd ((?:machine )?up .*)")


def commands(text: str) -> list[str]:
    """The command lines of a file, without `groupd`; a shell's variables are as good as any word."""
    whole = re.sub(r"\\\n[# ]*", "", text)
    return [re.sub(r"\s{2,}\(.*", "", found).replace('"', "") for found in COMMAND.findall(whole)]


def test_a_unit_and_a_manifest_are_there() -> None:
    assert {path.suffix for path in FILES} == {".service", ".yaml"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_their_commands_exist(path: Path) -> None:
    found = commands(path.read_text(encoding="utf-8"))
    assert any(line.startswith("machine up") for line in found)
    assert {line: what for line in found if (what := unknown(line))} == {}
