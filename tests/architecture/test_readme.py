"""The README says what the command line does, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from actors.protocol.versions import VERSIONS, ApiRange
from cluster import cli

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `groupd ([a-z-]+(?: [a-z-]+)?)` \| (.+) \|$", re.MULTILINE)
BUILT_IN = {
    "up",
    "demo",
    "status",
    "down",
    "config",
    "topics",
    "groups",
    "offsets",
    "explain",
    "top",
    "history",
    "leaders",
    "replicas",
    "journal",
    "backup",
    "restore",
}


def commands() -> dict[str, str]:
    """Every command of this package with the first sentence of its help."""
    found: dict[str, str] = {}
    for name, command in get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        if name not in BUILT_IN:
            continue
        children = getattr(command, "commands", None)
        for child_name, child in (children or {"": command}).items():
            first = " ".join((child.help or "").split("\n\n")[0].split())
            found[f"{name} {child_name}".strip()] = first.split(". ")[0].rstrip(".") + "."
    return found


def test_the_command_table_is_that_of_the_program() -> None:
    """Mend the README with the rows that this test prints."""
    table = dict(ROW.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    actual = commands()
    rows = "\n".join(f"| `groupd {name}` | {text} |" for name, text in actual.items())
    assert {name: table.get(name) for name in actual} == actual, f"README.md should have\n{rows}"
    assert {name for name in table if name.split()[0] in BUILT_IN} == set(actual)


def test_the_list_of_apis_is_that_of_the_version_table() -> None:
    """Mend the README with the line that this test prints."""
    line = ", ".join(_api(api) for _, api in sorted(VERSIONS.items())) + "."
    assert line in (ROOT / "README.md").read_text(encoding="utf-8"), line


def _api(api: ApiRange) -> str:
    name = "".join(part.capitalize() for part in api.name.split("_"))
    return f"{name} {api.min_version}" + (f"-{api.max_version}" if api.max_version != api.min_version else "")
