"""Size, words and places of source files."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from tests.architecture.tracked import nodes, tracked, tree

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
TOP_LEVEL = {"pyproject.toml", "README.md", "cluster", "actors", "storage", "bench", "tests", "deploy"}
BACKWARDS = ("ODOT", "EMXIF", "buts", "redlohecalp", "won rof", "rorrEdetnemelpmItoN")
"""Written backwards, so that this file does not contain them itself."""
WORDS = [word[::-1] for word in BACKWARDS]
FORBIDDEN = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")
SUPPRESSION = re.compile(r"#\s*(?:noqa\b(?!:)|type:\s*ignore(?!\[))")
TRACKED = tracked(ROOT)
PATHS = [path for path in TRACKED if path.suffix == ".py" and path.is_file()]


def test_a_file_of_the_users_own_breaks_no_rule(tmp_path: Path) -> None:
    """These tests looked at whatever lay in the checkout: a user's notes made them fail."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "ours.py").touch()
    subprocess.run(["git", "-C", str(tmp_path), "add", "ours.py"], check=True)
    (tmp_path / "notes.txt").touch()
    assert tracked(tmp_path) == [tmp_path / "ours.py"]


def test_top_level_entries_are_the_agreed_ones() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in TRACKED}
    entries = {name for name in names if not name.startswith(".")}
    assert entries <= TOP_LEVEL
    assert {"pyproject.toml", "README.md", "cluster", "actors", "storage", "tests"} <= entries


def test_files_fit() -> None:
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in PATHS}
    assert {name: count for name, count in lines.items() if count > FILE_LINES_MAX} == {}


def test_functions_fit_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines"
        for path in PATHS
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_nothing_is_left_to_be_done() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in PATHS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert wrong == []


def test_no_error_is_swallowed_whole() -> None:
    """`except Exception: pass` hides our own bugs; so does a bare except."""
    wrong = []
    for path in PATHS:
        for node in nodes(path):
            if not isinstance(node, ast.ExceptHandler):
                continue
            everything = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            if everything and all(isinstance(statement, ast.Pass) for statement in node.body):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []


def test_suppressions_name_what_they_suppress() -> None:
    wrong = []
    for path in PATHS:
        text = path.read_text(encoding="utf-8")
        if not SUPPRESSION.search(text):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and SUPPRESSION.search(token.string):
                wrong.append(f"{path.relative_to(ROOT)}:{token.start[0]}")
    assert wrong == []


def test_tests_do_not_sleep() -> None:
    """A test polls with a deadline; the one helper that waits between polls is asyncio's or Event's."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in PATHS
        if path.is_relative_to(ROOT / "tests")
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep"
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["cluster", "actors", "storage", "bench"])
def test_every_module_states_its_law(package: str) -> None:
    missing = [
        str(path.relative_to(ROOT))
        for path in PATHS
        if path.is_relative_to(ROOT / package)
        and path.read_text(encoding="utf-8").strip()
        and ast.get_docstring(tree(path)) is None
    ]
    assert missing == []
