"""`groupd history` as one types it, engine and all: it prints what was planted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from storage.history.generator.plan import Plan
from storage.history.segments.folder import Folder


def ask(folder: Folder, *arguments: str) -> str:
    """Run `groupd history` with these arguments and return what it prints."""
    command = [sys.executable, "-m", "cluster.cli", "history", *arguments, "--history", folder.url]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.timeout(600)])]
)
def test_a_report_and_sql_say_what_was_planted(
    folder: Folder, planned: Plan, tmp_path: Path, engine: str
) -> None:
    answers = planned.answers
    page = tmp_path / "page.html"
    printed = ask(
        folder, "report", "--engine", engine, "--since", f"{planned.spec.first_date}", "--out", str(page)
    )
    broken = len(answers.double_owned) + len(answers.regressed) + len(answers.fallen)
    assert (
        f"{sum(answers.rebalances.values()):,} rebalances of {planned.spec.groups} groups,"
        f" {len(answers.storms)} storms, {broken} invariants broken."
    ) in printed
    assert str(page) in printed
    shown = page.read_text(encoding="utf-8")
    partitions = [f"{each.topic}-{each.partition}" for each in (*answers.double_owned, *answers.regressed)]
    assert [name for name in partitions if name not in shown] == []
    query = "SELECT group_id, count(*) AS storms FROM storms GROUP BY group_id"
    told = {
        row["group_id"]: row["storms"]
        for row in json.loads(ask(folder, "sql", query, "--json", "--engine", engine))
    }
    assert told == Counter(storm.group_id for storm in answers.storms)
