"""The command line without a tier: settings shown, faults in one line, exit codes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.cli import app
from cluster.tier_file import hint

RUNNER = CliRunner()
COMMANDS = (
    ["up"],
    ["status"],
    ["down"],
    ["config"],
    ["topics", "create"],
    ["topics", "list"],
    ["topics", "delete"],
    ["groups", "list"],
    ["groups", "describe"],
    ["groups", "delete"],
    ["groups", "delete-offsets"],
    ["groups", "reset-offsets"],
    ["groups", "remove-members"],
    ["groups", "configs"],
    ["groups", "validate-regex"],
    ["offsets", "export"],
    ["offsets", "import"],
    ["machine", "list"],
    ["upgrade", "status"],
    ["upgrade", "finalize"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_examples(command: list[str]) -> None:
    result = RUNNER.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Examples" in result.output
    assert f"groupd {' '.join(command)}" in result.output
    assert "--json" in result.output


def test_config_shows_value_and_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPD_NODES", "5")
    result = RUNNER.invoke(app, ["config", "--json", "--set", "port=1234"])
    rows = {row["name"]: row for row in json.loads(result.output)}
    assert (rows["nodes"]["value"], rows["nodes"]["from"], rows["nodes"]["default"]) == (5, "environment", 3)
    assert (rows["port"]["value"], rows["port"]["from"]) == (1234, "flag")
    assert "offsets.topic.num.partitions" in RUNNER.invoke(app, ["config"], env={"COLUMNS": "200"}).output


def test_a_wrong_setting_ends_with_2_and_one_line_before_anything_starts(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    result = RUNNER.invoke(app, ["up", "--data-dir", str(data_dir), "--set", "nodes=0"])
    assert result.exit_code == 2
    assert result.stderr == "groupd: nodes = '0' (flag): a whole number from 1 to 99 is allowed\n"
    assert not data_dir.exists()


def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = RUNNER.invoke(app, ["up", "--nodes=1", f"--port={port}", f"--data-dir={tmp_path}"])
    assert result.exit_code == 1
    assert f"127.0.0.1:{port} (in use by process" in result.stderr
    assert not (tmp_path / "tier.json").exists()


@pytest.mark.parametrize(
    "command", [["status"], ["down"], ["topics", "list"], ["groups", "list"]], ids=" ".join
)
def test_a_tier_that_is_not_there_is_said_so(tmp_path: Path, command: list[str]) -> None:
    result = RUNNER.invoke(app, [*command, "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "there is no tier in" in result.stderr
    assert f"`groupd up --data-dir {tmp_path}` makes one" in result.stderr


def test_a_hint_names_no_directory_that_is_meant_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hint("status", Path("groupd-data")) == "`groupd status`"
    assert hint("status", Path("other")) == "`groupd status --data-dir other`"


def test_a_kafka_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.kafka_admin.REQUEST_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    result = RUNNER.invoke(app, ["topics", "list", "--bootstrap", address])
    assert result.exit_code == 1
    assert f"no Kafka answers at {address}" in result.stderr
