"""`groupd history` before Spark begins: where it looks, and what it refuses at once (issue 8)."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster import cli, tier_file
from cluster.settings import load
from cluster.tier import plan_tier
from storage.history.segments.folder import Folder
from tests.cluster.test_tier_file import TIER
from tests.history.segments.making import changed, publish, stretch


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for Spark here fails."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def report(data_dir: Path, *options: str) -> str:
    """What the command says in its one line."""
    arguments = ["history", "report", "--data-dir", str(data_dir), *options]
    ran = CliRunner().invoke(cli.app, arguments)
    assert ran.exit_code == 1
    assert ran.stderr.count("\n") == 1
    return ran.stderr


def recording(folder: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    publish(Folder(str(folder)), stretch([changed(number, now_ms) for number in range(3)]))


def test_history_is_where_the_tier_was_told_to_write_it(tmp_path: Path) -> None:
    """Below the data directory if it was told nothing."""
    assert f"nothing recorded in {tmp_path / 'history'}" in report(tmp_path)
    tier_file.write(tmp_path, replace(TIER, history_dir=str(tmp_path / "elsewhere")))
    assert f"nothing recorded in {tmp_path / 'elsewhere'}" in report(tmp_path)
    tier_file.write(tmp_path, TIER)
    assert f"nothing recorded in {tmp_path / 'history'}" in report(tmp_path)


def test_a_wrong_group_is_refused_before_spark_begins(tmp_path: Path) -> None:
    recording(tmp_path / "history")
    said = report(tmp_path, "--group", "group-11")
    assert "nothing recorded of group group-11" in said
    assert "there are, among others: group-1, group-" in said
    assert "Java" in report(tmp_path, "--group", "group-1"), "a right one goes on to Spark"


def test_a_wrong_period_is_refused_before_spark_begins(tmp_path: Path) -> None:
    publish(Folder(str(tmp_path / "history")), stretch([changed(1, 1_000_000_000_000)]))
    assert "there are events from 2001-09-09 to 2001-09-09" in report(tmp_path)


def test_a_tier_remembers_where_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given, kept in (("kept", str(tmp_path / "kept")), ("memory://kept", "memory://kept"), ("", "")):
        settings = load({"history.dir": given}, environment={})
        for existing in (None, TIER):
            assert plan_tier(settings, existing, TIER.nodes, TIER.tier_id).history_dir == kept
