"""`groupd journal`: what a replica's disk says, in words, in JSON and in the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import msgpack
import pytest
from typer.testing import CliRunner

from actors.ground.records import (
    OFFSET_COMMIT,
    OffsetCommitKey,
    OffsetCommitValue,
)
from actors.replica.log_level import FORMAT_VERSION
from cluster.cli import app
from storage.raft.disk import Disk
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import founders
from storage.raft.snapshot import Snapshot, SnapshotStore

RUNNER = CliRunner()
MEMBERS = founders({0: 1, 1: 2})


def entry(group: str, offset: int) -> bytes:
    key = OffsetCommitKey(OFFSET_COMMIT, group, "payments", 4)
    value = OffsetCommitValue(offset, -1, "", 1_700_000_000_000, -1, bytes(16))
    unknown = ((99, "of a later release"), (1,))
    return b"\x00" + b"".join(
        msgpack.packb(each) for each in ((FORMAT_VERSION, 2), (key, value), (key, None), unknown)
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Two replicas of one partition, on two nodes."""
    for replica in (0, 1):
        name = f"partition-0-{replica}"
        home = tmp_path / f"node-{replica + 1}" / name
        identity = Identity(tier_id="tier", replica_id=name)
        journal = Journal(
            Disk(),
            str(home / "journal"),
            identity,
            executor=None,
            notify=lambda: None,
            genesis=Genesis(1, MEMBERS),
        )
        journal.set_hard_state(2, "0.1")
        journal.append((b"\x01", 1, 2))
        for index in (2, 3, 4):
            journal.append((entry("billing", index * 100), index, 2))
        journal.close()
        SnapshotStore(Disk(), str(home / "snapshot"), identity).save(Snapshot.of(2, 2, b"state", MEMBERS))
    return tmp_path


def damage(data_dir: Path) -> Path:
    path = data_dir / "node-2" / "partition-0-1" / "journal" / "000000000001.journal"
    content = bytearray(path.read_bytes())
    content[150] ^= 1
    path.write_bytes(content)
    return path


def test_verify_of_a_sound_data_directory_ends_with_0(data_dir: Path) -> None:
    result = RUNNER.invoke(app, ["journal", "verify", str(data_dir)])
    assert (result.exit_code, result.output) == (0, "2 replicas, all sound.\n")


def test_verify_of_damage_ends_with_1_and_one_line_a_problem(data_dir: Path) -> None:
    path = damage(data_dir)
    result = RUNNER.invoke(app, ["journal", "verify", str(data_dir)])
    assert result.exit_code == 1
    problem, verdict = result.output.splitlines()
    assert problem.startswith(f"{path} is damaged at byte ")
    assert verdict.startswith("1 of 2 replicas damaged: the replica has to be rebuilt from its peers")
    result = RUNNER.invoke(app, ["journal", "verify", str(data_dir), "--json"])
    assert result.exit_code == 1
    assert [len(report["problems"]) for report in json.loads(result.output)] == [0, 1]


def test_inspect_shows_segments_members_and_snapshot(data_dir: Path) -> None:
    result = RUNNER.invoke(app, ["journal", "inspect", str(data_dir / "node-1")], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "replica partition-0-0 of tier tier" in result.output
    assert "incarnation 1, founders 0.1 on node 1, 1.1 on node 2" in result.output
    assert "snapshot at entry 2 of term 2, 5 bytes, members 0.1 on node 1, 1.1 on node 2" in result.output
    (row,) = [line.split() for line in result.output.splitlines() if line.startswith("1 ")]
    assert row[1] == "2"
    assert row[3:] == ["4", "1", "4", "2", "2", "0.1", "whole"]


def test_inspect_lists_records_in_readable_form(data_dir: Path) -> None:
    arguments = ["journal", "inspect", str(data_dir / "node-1"), "--records", "--from", "3", "--limit", "1"]
    result = RUNNER.invoke(app, arguments, env={"COLUMNS": "200"})
    *_, committed, deleted, unknown = result.output.splitlines()
    key = "OffsetCommit  group_id=billing topic=payments partition=4"
    assert committed.startswith(f"         3  term 2  {key}: offset=300 leader_epoch=-1")
    assert deleted == f"         3  term 2  {key}: deleted"
    assert unknown == "         3  term 2  99  [99, of a later release]: [1]"
    (shown,) = json.loads(RUNNER.invoke(app, [*arguments, "--json"]).output)
    (record,) = shown["records"]
    assert (record["index"], record["term"], record["content"]["decided_in"]) == (3, 2, 2)
    assert record["content"]["records"][0]["value"]["offset"] == 300


def test_inspect_shows_damage_and_where(data_dir: Path) -> None:
    damage(data_dir)
    result = RUNNER.invoke(app, ["journal", "inspect", str(data_dir / "node-2")], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    assert "damaged: " in result.output
    assert "whole records seem to follow" in result.output


def test_records_of_many_replicas_at_once_are_refused(data_dir: Path) -> None:
    result = RUNNER.invoke(app, ["journal", "inspect", str(data_dir), "--records"])
    assert result.exit_code == 1
    assert result.stderr.endswith("holds 2 replicas: --records takes the directory of one\n")


def test_a_directory_without_replicas_is_told(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["journal", "verify", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == f"groupd: {tmp_path} holds no journal and no snapshot\n"


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_each_command_explains_itself_with_examples(command: str) -> None:
    result = RUNNER.invoke(app, ["journal", command, "--help"])
    assert result.exit_code == 0
    assert f"groupd journal {command}" in result.output
    assert "--json" in result.output
