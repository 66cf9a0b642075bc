"""Which tests prove which rule: the table tests/ROWS.md, made from what transcripts and docstrings name.

The rules are those of actors/coordinator/RULES.md. An id is a letter and a number ("C22"). A transcript names
its rules in its decorator, a test in its docstring or in that of its module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.oracle.registry import all_transcripts

TESTS = Path(__file__).resolve().parents[1]
TABLE = TESTS / "ROWS.md"
RULES = TESTS.parent / "actors" / "coordinator" / "RULES.md"


class Rule(NamedTuple):
    """A rule as RULES.md tells it."""

    says: str
    text: str


@cache
def rules() -> Mapping[str, Rule]:
    """Rule id -> its heading, and the text below it up to the next heading."""
    parts = re.split(r"^#{2,3} (.+)\n", RULES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        rule_id, _, says = heading.partition(": ")
        if _ID.fullmatch(rule_id):
            assert rule_id not in found, f"{rule_id} stands twice in RULES.md"
            found[rule_id] = Rule(says, text.strip())
    return found


_ID = re.compile(r"\b([WCOMGERBAD])(\d{1,2})\b")
_RANGE = re.compile(r"\b([WCOMGERBAD])(\d{1,2}) to \1(\d{1,2})\b")
HEAD = """# Rules and the tests that prove them
Made by `python -m tests.oracle rows --markdown > tests/ROWS.md`; a test fails when it is stale.
[RULES.md](../actors/coordinator/RULES.md) tells each rule in full.

| rule | says | transcripts (tests/oracle/transcripts) | tests |
|--|--|--|--|
"""


def rows_in(text: str) -> set[str]:
    """The row ids in a docstring; "C1 to C4" are four."""
    found = {letter + number for letter, number in _ID.findall(text)}
    for letter, first, last in _RANGE.findall(text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    return found & set(rules())


def transcripts_by_row() -> Mapping[str, list[str]]:
    """Return the transcripts that name each rule, without the cases in their names."""
    found: dict[str, set[str]] = {row: set() for row in rules()}
    for transcript in all_transcripts():
        for row in transcript.rows:
            found.setdefault(row, set()).add(transcript.name.partition("[")[0])
    return {row: sorted(names) for row, names in found.items()}


def tests_by_row() -> Mapping[str, list[str]]:
    """`folder/file.py` where the module's docstring names the row, else `folder/file.py::test`."""
    found: dict[str, set[str]] = {row: set() for row in rules()}
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
    """Return the rules that no transcript and no test names."""
    transcripts, tests = transcripts_by_row(), tests_by_row()
    return [row for row in rules() if not transcripts[row] and not tests[row]]


def markdown() -> str:
    """Return ROWS.md, with its table."""
    transcripts, tests = transcripts_by_row(), tests_by_row()
    lines = [
        f"| {row} | {rule.says} | {', '.join(transcripts[row])} | {', '.join(tests[row])} |"
        for row, rule in rules().items()
    ]
    return HEAD + "\n".join(lines) + "\n"
