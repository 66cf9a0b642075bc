"""`groupd history` without Java: where it looks, what it refuses at once, and what DuckDB answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from actors.coordinator.told.events import GroupDeleted
from cluster import cli, tier_file
from cluster.settings import load
from cluster.tier import plan_tier
from storage.history.jobs import choice
from storage.history.period import Period
from storage.history.rules import RULES
from storage.history.segments.folder import Folder
from tests.cluster.test_tier_file import TIER
from tests.history.segments.making import NOON_MS, changed, publish, stretch


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Java away, so that a command that starts Spark fails."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def report(data_dir: Path, *options: str) -> str:
    """Run `groupd history report`, which must fail, and return the one line that it says."""
    arguments = ["history", "report", "--data-dir", str(data_dir), *options]
    ran = CliRunner().invoke(cli.app, arguments)
    assert ran.exit_code == 1
    assert ran.stderr.count("\n") == 1
    return ran.stderr


def recording(folder: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    publish(Folder(str(folder)), stretch([changed(number, now_ms) for number in range(3)]))


def test_history_is_where_the_tier_was_told_to_write_it(tmp_path: Path) -> None:
    """The history is below the data directory by default."""
    assert f"nothing recorded in {tmp_path / 'history'}" in report(tmp_path)
    tier_file.write(tmp_path, replace(TIER, history_dir=str(tmp_path / "elsewhere")))
    assert f"nothing recorded in {tmp_path / 'elsewhere'}" in report(tmp_path)
    tier_file.write(tmp_path, TIER)
    assert f"nothing recorded in {tmp_path / 'history'}" in report(tmp_path)


def test_a_wrong_group_is_refused_before_an_engine_begins(tmp_path: Path) -> None:
    recording(tmp_path / "history")
    said = report(tmp_path, "--group", "group-11")
    assert "nothing recorded of group group-11" in said
    assert "there are, among others: group-1, group-" in said
    right = report(tmp_path, "--group", "group-1", "--engine", "spark")
    assert "Java" in right, "a right one goes on to Spark"


def test_a_period_without_events_is_refused_before_an_engine_begins(tmp_path: Path) -> None:
    publish(Folder(str(tmp_path / "history")), stretch([changed(1, 1_000_000_000_000)]))
    assert "there are events from 2001-09-09 to 2001-09-09" in report(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["history", *arguments])


def test_a_small_history_needs_no_java(tmp_path: Path) -> None:
    """Six thousand events took a minute and a JVM."""
    recording(tmp_path / "history")
    where = ("--data-dir", str(tmp_path))
    page = tmp_path / "page.html"
    for since in ("1h", "15m", "1d"):
        told = run("report", "--since", since, "--out", str(page), *where)
        assert told.exit_code == 0, told.stderr
        assert "0 rebalances" in told.stdout
    assert page.exists()
    assert run("jobs", "--since", "1d", *where).exit_code == 0
    assert (tmp_path / "history-tables" / "groups").exists()


def test_a_part_of_a_day_is_answered_from_its_events_alone(tmp_path: Path) -> None:
    """No table is kept of such a part, because tables are of whole days."""
    now_ms = time.time_ns() // 1_000_000
    old, new = (stretch([changed(1, now_ms - ago_ms)], first=ago_ms) for ago_ms in (30 * 60_000, 60_000))
    publish(Folder(str(tmp_path / "history")), old)
    publish(Folder(str(tmp_path / "history")), new)
    where = ("--data-dir", str(tmp_path), "--json")
    counted = "SELECT count(*) AS events FROM events"
    for since, events in (("15m", 1), ("1h", 2)):
        assert json.loads(run("sql", counted, "--since", since, *where).stdout) == [{"events": events}]
    assert run("report", "--since", "1h", "--out", str(tmp_path / "page.html"), *where).exit_code == 0
    assert not (tmp_path / "history-tables").exists()


def test_a_quarter_of_an_hour_in_which_nothing_was_told_is_no_quiet_one(tmp_path: Path) -> None:
    """The day has events and the quarter has none: the tier may not have run."""
    hour_ago_ms = NOON_MS - 3_600_000
    publish(Folder(str(tmp_path / "history")), stretch([changed(1, hour_ago_ms)]))
    said = report(tmp_path, "--since", "2026-11-22T11:45", "--until", "2026-11-22T12:00")
    assert "nothing recorded from" in said
    assert f"there are events from {Period(hour_ago_ms, hour_ago_ms)}" in said


def test_hints_name_the_data_directory_that_was_used(tmp_path: Path) -> None:
    recording(tmp_path / "history")
    asked = run("sql", "SELECT 1 AS one", "--data-dir", str(tmp_path))
    assert f"`groupd history jobs --data-dir {tmp_path}` makes them" in asked.stderr
    history = tmp_path / "history"
    asked = run("sql", "SELECT 1 AS one", "--history", str(history))
    assert f"`groupd history jobs --history {history}` makes them" in asked.stderr


def test_what_was_mistyped_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    recording(tmp_path / "history")
    where = ("--data-dir", str(tmp_path))
    for arguments, why in (
        (("report", "--since", "soon"), "--since soon: minutes (15m), hours (1h)"),
        (("sql", "SELECT 1", "--until", "1h"), "--until needs --since"),
        (("jobs", "--follow", "--engine", "duckdb"), "--follow is Spark's"),
    ):
        refused = run(*arguments, *where)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert why in refused.stderr
    wrong = run("sql", "SELECT nothing FROM events", *where)
    assert (wrong.exit_code, "nothing" in wrong.stderr) == (1, True)
    little = run("report", "--since", "1h", "--memory", "1kB", *where)
    assert (little.exit_code, little.stderr.count("\n")) == (1, 1)
    assert "groupd: 1kB are too little for DuckDB (--memory): " in little.stderr


def test_what_is_too_much_for_duckdb_is_said_where_spark_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording(tmp_path / "history")
    monkeypatch.setattr(choice, "ROWS_MAX", 2)
    told = run("report", "--since", "1h", "--out", str(tmp_path / "page.html"), "--data-dir", str(tmp_path))
    assert told.exit_code == 0
    assert "3 events are many for DuckDB, and Spark cannot run (Spark needs Java" in told.stderr


def test_a_tier_remembers_where_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given, kept in (("kept", str(tmp_path / "kept")), ("memory://kept", "memory://kept"), ("", "")):
        settings = load({"history.dir": given}, environment={})
        for existing in (None, TIER):
            assert plan_tier(settings, existing, TIER.nodes, TIER.tier_id).history_dir == kept


def test_rows_of_events_say_the_rule_that_their_id_stands_for(tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    gone = GroupDeleted(now_ms - 60_000, "billing", "nobody used it", "O15")
    publish(Folder(str(tmp_path / "history")), stretch([gone]))
    asked = ("sql", "SELECT group_id, rule FROM events", "--since", "15m", "--data-dir", str(tmp_path))
    [heading, row] = run(*asked).stdout.strip().splitlines()
    assert heading.split() == ["group_id", "rule", "rule_says"]
    assert row.split(maxsplit=2) == ["billing", "O15", RULES["O15"]]
    assert json.loads(run(*asked, "--json").stdout)[0]["rule_says"] == RULES["O15"]
