"""The jobs know why members expire: in the very words in which the coordinator says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import actors.coordinator
from storage.history.jobs.members import MISSED_CAUSES

SOURCES = Path(actors.coordinator.__file__).parent
SPEAKS_OF_TIME = re.compile(r"^[a-z ]*(in time|timeout|timed out|too long)\b")
SESSION_OVER = {
    "session timeout",
    "session timed out",
    "waited too long for its first generation",
    "did not use its member id in time",
}
"""Ways of leaving in which the member's session was over already (M17, C12, C8): it missed nothing."""
OF_GROUPS = {"members did not sync in time", " did not stop its fetchers in time"}
"""Why a group rebalances, not why a member expires."""
EMITTERS = {
    ("rebalance.py", "_remove_late"),
    ("rebalance.py", "on_session_timer"),
    ("history.py", "removed"),
    ("history.py", "_gone"),
    ("history.py", "tell_gone"),
    ("answers.py", "on_fail_timer"),
}
"""The files that make a `MemberExpired` event."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.name, ast.parse(path.read_text(encoding="utf-8"))


def said(tree: ast.Module) -> set[str]:
    """Return the texts of a file that are values; docstrings are none."""
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in shown
    }


def test_every_cause_of_an_expiry_is_known() -> None:
    """Another wording in the coordinator is to be taken over here, or told apart."""
    causes = {text for _, tree in trees() for text in said(tree) if SPEAKS_OF_TIME.match(text)}
    assert causes == {*MISSED_CAUSES, *SESSION_OVER, *OF_GROUPS}


def test_members_expire_where_we_looked_for_causes() -> None:
    found = {
        (name, function.name)
        for name, tree in trees()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "MemberExpired"
    }
    assert found == EMITTERS
