"""Rules have one place, RULES.md: whatever is cited stands there, and says where it comes from.

What is looked at: docstrings and comments of every Python file, and every Markdown page. Names in code that
look like ids are not.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from storage.history.rules import RULES
from tests.architecture.test_language import docstrings
from tests.architecture.tracked import nodes, tracked, tree
from tests.oracle.rows import rules

ROOT = Path(__file__).resolve().parents[2]
CITED = re.compile(r"\b[WCOMGERBAD]\d{1,2}\b")
A_RULES_ID = re.compile(r"[WCOMGERBAD]\d{1,2}")
ELSEWHERE = re.compile(r"\bsection \d+")
HAVE_SECTIONS = re.compile(r"Raft|RFC|paper|dissertation")
PYTHON = [path for path in tracked(ROOT) if path.suffix == ".py" and path.is_file()]
PAGES = [path for path in tracked(ROOT) if path.suffix == ".md" and path.is_file()]
PRINTED_PAGES = (
    "actors/metrics/METRICS.md",
    "cluster/SETTINGS.md",
    "cluster/cli/COMMANDS.md",
    "storage/history/SCHEMA.md",
)
"""Pages of what commands print: their help, settings, metrics and columns."""


def comments(path: Path) -> Iterator[str]:
    with io.StringIO(path.read_text(encoding="utf-8")) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                yield token.string


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """(file, text) of everything that is written for people."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for path in PYTHON:
        name = str(path.relative_to(ROOT))
        for _, text in docstrings(tree(path)):
            yield name, text
        for text in comments(path):
            yield name, text
    for path in PAGES:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_every_rule_that_is_cited_stands_in_rules() -> None:
    known = set(rules())
    wrong = {f"{name}: {each}" for name, text in texts() for each in CITED.findall(text) if each not in known}
    assert wrong == set()


def test_no_text_points_to_a_document_that_is_not_here() -> None:
    wrong = [
        f"{name}: {text[:80]}"
        for name, text in texts()
        if ELSEWHERE.search(text) and not HAVE_SECTIONS.search(text)
    ]
    assert wrong == []


@pytest.mark.parametrize("rule_id", rules())
def test_a_rule_says_what_kafka_does_and_where_that_stands(rule_id: str) -> None:
    rule = rules()[rule_id]
    what, _, whence = rule.text.partition("*Source:*")
    assert what.strip(), "says nothing"
    assert whence.strip(), "names no source"
    assert len(rule.says) <= 100
    assert not rule.says.endswith(".")


def test_words_that_commands_print_are_those_of_rules() -> None:
    """An event carries a rule's id; who reads it sees the heading of RULES.md."""
    wrong = {each: words for each, words in RULES.items() if rules()[each].says.lower() != words.lower()}
    assert wrong == {}


def test_no_command_prints_an_id_alone() -> None:
    """An id stands in a string of the product only where it is all of it: as the rule of a cause."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value[:60]}"
        for path in PYTHON
        if path.relative_to(ROOT).parts[0] in ("actors", "bench", "cluster", "storage")
        for node in nodes(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CITED.search(node.value)
        and A_RULES_ID.fullmatch(node.value) is None
        and node.value.strip() not in {text for _, text in docstrings(tree(path))}
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PRINTED_PAGES)
def test_a_page_of_what_commands_print_names_no_rule_by_its_id_alone(page: str) -> None:
    assert CITED.findall((ROOT / page).read_text(encoding="utf-8")) == []
