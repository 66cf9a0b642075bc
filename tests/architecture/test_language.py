"""Docstrings are sentences or noun phrases that need no other text, and functions take few parameters.

What is looked at: the beginning of every docstring, those of fields and constants included. Whether a
sentence is a good one only a reader can say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tracked import nodes, tracked, tree

ROOT = Path(__file__).resolve().parents[2]
PATHS = [path for path in tracked(ROOT) if path.suffix == ".py" and path.is_file()]
PRODUCT = ("actors", "bench", "cluster", "storage")
FRAGMENT = re.compile(
    r"(?:Of|As|At|In|On|For|From|By|To|With|Without|Than|Until|Below|Beside|Since)\b(?!:)"
    r"|(?:Theirs|Its|Their|Those|All of it|And|Also|So many|So much|Raises)\b"
    r"|(?:None|True|False|Empty|-?\d+):"
)
"""How a text begins that only says something beside the name below which it stands.

A value with a colon is one of these ("None: nobody asked."): "It is None if nobody asked." has a verb. So
is "Raises", which says nothing of what the function does.
"""
PARAMETERS_MAX = 5
MANY_PARAMETERS = {
    "actors/coordinator/shard.py": "the one place that makes a shard, with what a test may put in its place",
    "actors/assignors/kernels.py": "numba passes arrays one by one; a record of them is packed at every call",
    "actors/leader/lane/compiled.py": "numba takes arrays one by one, as in the assignors' kernels",
    "actors/ground/image.py": "the image is made in one place, by name, from all parts of the metadata",
    "storage/raft/raft.py": "the one place that puts a replica of Raft together",
    "storage/raft/journal.py": "the one place that opens a journal, with what a test may put in its place",
    "storage/raft/transport.py": "the one place that opens a replica's links",
    "actors/replica/host.py": "the one place that puts a replica's host together",
    "actors/api/context.py": "the one place that gathers what broker APIs need",
}
"""Files whose functions may take more parameters, and why."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every docstring of a file with its line: of modules, classes, functions, fields and constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text.strip()


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [each.arg for each in named if each.arg not in ("self", "cls")]


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> bool:
    """Whether the function is a command of the CLI, which has a parameter for each of its flags."""
    if function.name in registered(path) or "typer." in ast.unparse(function.args):
        return True
    return any(
        re.search(r"\.(command|callback)\b", ast.unparse(decorator)) for decorator in function.decorator_list
    )


def registered(path: Path) -> set[str]:
    """The functions of a file that are made commands by a call, as in `app.command(epilog=...)(report)`."""
    return {
        argument.id
        for node in nodes(path)
        if isinstance(node, ast.Call) and re.search(r"\.command\(", ast.unparse(node.func))
        for argument in node.args
        if isinstance(argument, ast.Name)
    }


def test_docstrings_are_no_fragments() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in PATHS
        for line, text in docstrings(tree(path))
        if FRAGMENT.match(text)
    ]
    assert wrong == []


def test_a_fragment_is_seen_wherever_a_docstring_may_stand() -> None:
    text = '"""As above."""\nA = 1\n"""Of each."""\n'
    text += 'class B:\n    """In short."""\n    c: int\n    """By name."""\n'
    found = [FRAGMENT.match(each) is not None for _, each in docstrings(ast.parse(text))]
    assert found == [True] * 4


@pytest.mark.parametrize(
    ("text", "is_fragment"),
    [
        ("None: nobody asked.", True),
        ("It is None if nobody asked.", False),
        ("-1: the tier's default.", True),
        ("Raises OSError.", True),
        ("Write a file. Raises OSError.", False),
        ("Those that are there.", True),
        ("Until when it sleeps.", True),
        ("So many groups.", True),
        ("In: a column of the table.", False),
    ],
)
def test_what_a_fragment_is(text: str, is_fragment: bool) -> None:
    assert (FRAGMENT.match(text) is not None) == is_fragment


def test_functions_take_few_parameters() -> None:
    wrong = [
        f"{name}:{node.lineno} {node.name}: {', '.join(parameters(node))}"
        for path in PATHS
        if (name := str(path.relative_to(ROOT))).startswith(PRODUCT) and name not in MANY_PARAMETERS
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(parameters(node)) > PARAMETERS_MAX
        and not is_command(node, path)
    ]
    assert wrong == []


def test_every_exception_is_needed() -> None:
    """A file on the list has such a function: a list that outlives its reasons hides new ones."""
    idle = [
        name
        for name in MANY_PARAMETERS
        if not (ROOT / name).exists()
        or not any(
            len(parameters(node)) > PARAMETERS_MAX
            for node in nodes(ROOT / name)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
    ]
    assert idle == []
