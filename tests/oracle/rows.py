"""Which tests prove which rule: the table tests/ROWS.md, made from what transcripts and docstrings name.

A row id is a letter and a number ("C22"): W wire, C classic groups, O offsets, M consumer groups, G
migration, E static membership, R runtime, B tools and operation, A the protocol's own chapter. A transcript
names its rows in its decorator, a test in its docstring or in that of its module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.oracle.registry import all_transcripts

TESTS = Path(__file__).resolve().parents[1]
TABLE = TESTS / "ROWS.md"
_LAST = {"W": 17, "C": 29, "O": 17, "M": 27, "G": 8, "E": 13, "R": 8, "B": 11, "A": 25}
_ABSENT = {"A4", "A7", "A9", "A10", "A11"}
"""Rules of the protocol's drafts: Kafka never had them."""
ROWS = tuple(
    row
    for letter, last in _LAST.items()
    for number in range(1, last + 1)
    if (row := f"{letter}{number}") not in _ABSENT
)
_ID = re.compile(r"\b([WCOMGERBA])(\d{1,2})\b")
_RANGE = re.compile(r"\b([WCOMGERBA])(\d{1,2}) to \1(\d{1,2})\b")
HEAD = """# Rows and the tests that prove them
Made by `python -m tests.oracle rows --markdown > tests/ROWS.md`; a test fails when it is stale.

| row | transcripts (tests/oracle/transcripts) | tests |
|--|--|--|
"""


def rows_in(text: str) -> set[str]:
    """The row ids in a docstring; "C1 to C4" are four."""
    found = {letter + number for letter, number in _ID.findall(text)}
    for letter, first, last in _RANGE.findall(text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    return found & set(ROWS)


def transcripts_by_row() -> Mapping[str, list[str]]:
    """Names without their cases."""
    found: dict[str, set[str]] = {row: set() for row in ROWS}
    for transcript in all_transcripts():
        for row in transcript.rows:
            found.setdefault(row, set()).add(transcript.name.partition("[")[0])
    return {row: sorted(names) for row, names in found.items()}


def tests_by_row() -> Mapping[str, list[str]]:
    """`folder/file.py` where the module's docstring names the row, else `folder/file.py::test`."""
    found: dict[str, set[str]] = {row: set() for row in ROWS}
    for path in sorted(TESTS.rglob("test_*.py")):
        place = str(path.relative_to(TESTS))
        module = ast.parse(path.read_text(encoding="utf-8"))
        general = rows_in(ast.get_docstring(module) or "")
        for row in general:
            found[row].add(place)
        for name, text in _documented(module):
            for row in rows_in(text) - general:
                found[row].add(f"{place}::{name}")
    return {row: sorted(names) for row, names in found.items()}


def _documented(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""


def unproved() -> list[str]:
    """Rows that nothing names."""
    transcripts, tests = transcripts_by_row(), tests_by_row()
    return [row for row in ROWS if not transcripts[row] and not tests[row]]


def markdown() -> str:
    """The table."""
    transcripts, tests = transcripts_by_row(), tests_by_row()
    lines = [f"| {row} | {', '.join(transcripts[row])} | {', '.join(tests[row])} |" for row in ROWS]
    return HEAD + "\n".join(lines) + "\n"
