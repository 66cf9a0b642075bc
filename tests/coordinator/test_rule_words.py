"""Commands have words for every rule that an event names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from storage.history.rules import RULES, told, worded

RULE_ID = re.compile(r"[ACMOD]\d{1,2}")
COORDINATOR = Path(__file__).resolve().parents[2] / "actors" / "coordinator"


def test_every_rule_that_the_coordinator_gives_as_a_reason_has_words() -> None:
    named = {
        node.value
        for path in COORDINATOR.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and RULE_ID.fullmatch(node.value)
    }
    assert named == set(RULES)


def test_a_rule_of_a_later_version_is_told_by_its_id() -> None:
    assert told("Z99") == "rule Z99"


def test_rows_that_name_a_rule_say_it_too() -> None:
    row = {"events": [{"cause": "left", "rule": "C23", "reason": ""}, {"rule": None}], "rule": "two_leaders"}
    assert worded(row) == {
        "events": [
            {"cause": "left", "rule": "C23", "rule_says": RULES["C23"], "reason": ""},
            {"rule": None, "rule_says": ""},
        ],
        "rule": "two_leaders",
    }
