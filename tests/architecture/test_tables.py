"""One file lays out tables and makes consoles, so that no command can cut a name (`cluster.cli.tables`)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.architecture.tracked import nodes, tracked

ROOT = Path(__file__).resolve().parents[2]
SHARED = "cluster/cli/tables.py"
CUTTING = {"rich.table", "rich.columns", "rich.panel", "rich.layout", "rich.box", "tabulate", "prettytable"}
"""Modules that frame, wrap or cut what is printed."""
MAKES_CONSOLES = {
    "cluster/cli/command_help.py",  # asks how wide the terminal is
    SHARED,
}


SOURCES = [path for path in tracked(ROOT) if path.suffix == ".py" and path.is_file()]
TESTS_OF_CONSOLES = ("tests/bench", "tests/cluster", "tests/swarm")
"""Tests that hand a console of their own to what they test."""


def imported(found: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in found:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def makes_richs_console(found: Sequence[ast.AST]) -> bool:
    """Whether rich's own Console is called, which cuts what is wider than the terminal."""
    if "rich.console.Console" not in imported(found):
        return False
    calls = (node.func for node in found if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "Console" for called in calls)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_tables_are_made_by_one_file() -> None:
    assert {name_of(path) for path in SOURCES if imported(nodes(path)) & CUTTING} == {SHARED}


def test_consoles_are_made_by_one_file() -> None:
    making = {name_of(path) for path in SOURCES if makes_richs_console(nodes(path))}
    assert {name for name in making if not name.startswith(TESTS_OF_CONSOLES)} <= MAKES_CONSOLES


def parsed(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def test_who_makes_a_table_of_its_own_is_found() -> None:
    assert imported(parsed("from rich.table import Table")) & CUTTING
    assert imported(parsed("from rich import box")) & CUTTING
    assert imported(parsed("import rich.table")) & CUTTING
    assert makes_richs_console(parsed("from rich.console import Console\nConsole(width=80)"))
    assert not makes_richs_console(parsed("from cluster.cli.tables import Console\nConsole()"))
