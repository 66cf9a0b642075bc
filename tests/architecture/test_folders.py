"""Imports between files and between folders go one way: there is no circle, imports for typing included.

A folder is the files that lie directly in it: `actors/coordinator` and `actors/coordinator/classic` are two.
Who imports whom is read from the import statements, wherever in a file they stand. What is not seen: a module
that is named by a string alone (`importlib`), which is how a layer below starts one above on purpose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture.tracked import nodes, tracked

ROOT = Path(__file__).resolve().parents[2]
Graph = dict[str, set[str]]


@cache
def modules() -> Mapping[str, Path]:
    """Every tracked Python file by its dotted name; a package's is that of its `__init__`."""
    found = {}
    for path in tracked(ROOT):
        if path.suffix == ".py" and path.is_file():
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imported(file: Iterable[ast.AST], known: AbstractSet[str]) -> set[str]:
    """The modules of `known` that the import statements among the nodes of a file name."""
    names: set[str] = set()
    for node in file:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner if inner <= known else inner | {node.module}
    return names & known


@cache
def file_graph() -> Graph:
    known = set(modules())
    return {name: imported(nodes(path), known) - {name} for name, path in modules().items()}


def folder(name: str) -> str:
    return str(modules()[name].parent.relative_to(ROOT))


def folder_graph(files: Graph) -> Graph:
    folders: Graph = {}
    for name, others in files.items():
        folders.setdefault(folder(name), set()).update({folder(other) for other in others} - {folder(name)})
    return folders


def circle(graph: Graph) -> list[str]:
    """Return one circle of imports, each folder before the one that it imports; [] if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def test_no_circle_of_files() -> None:
    assert circle(file_graph()) == []


def test_no_circle_of_folders() -> None:
    product = {name: others for name, others in file_graph().items() if not name.startswith("tests")}
    assert circle(folder_graph(product)) == []


def test_raft_and_history_know_nothing_of_each_other() -> None:
    folders = folder_graph(file_graph())
    ties = [
        f"{name} imports {other}"
        for name, others in folders.items()
        for other in others
        for a, b in (("storage/raft", "storage/history"), ("storage/history", "storage/raft"))
        if name.startswith(a) and other.startswith(b)
    ]
    assert ties == []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_for_typing_and_inside_functions_are_seen() -> None:
    text = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from pack import first
def late():
    import pack.second
"""
    assert imported(ast.walk(ast.parse(text)), {"pack", "pack.first", "pack.second"}) == {
        "pack.first",
        "pack.second",
    }
