"""Bad input to `groupd up`: one error, the right exit code, nothing started, data untouched."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.ground.spec import NodeSpec, copies
from actors.network.quota import ConnectionLimits
from cluster import tier_file
from cluster.cli import app
from cluster.settings import Settings, SettingsError, load
from cluster.settings_table import SETTINGS
from cluster.tier_file import TierFile
from storage.raft.raft import RaftConfig

RUNNER = CliRunner()
WRONG_SETTING = 2
FAILED = 1

WRONG: list[tuple[list[str], str]] = [
    (["--nodes", "many"], "nodes = 'many' (flag): a whole number from 1 to 99 is allowed"),
    (["--nodes", "0"], "nodes = '0' (flag): a whole number from 1 to 99 is allowed"),
    (["--port", "65536"], "port = '65536' (flag): a whole number from 1 to 65535 is allowed"),
    (["--port", "65535"], "port = 65535 (flag): 3 nodes need ports up to 65537"),
    (["--host", "::"], "host = '::' (flag): an address that clients can connect to is allowed"),
    (["--set", "journal.sync=maybe"], "journal.sync = 'maybe' (flag): batch or off is allowed"),
    (["--set", "auto.create.topics.enable=1"], "(flag): true or false is allowed"),
    (["--set", "group.consumer.assignors=unheard-of"], "entry points of groupd.assignors and module:Class"),
    (["--set", "racks=a,b"], "racks = 'a,b' (flag): one for each of the 3 nodes is allowed"),
    (["--set", "socket.request.max.bytes=104857601"], "from 1024 to 104857600 is allowed"),
    (
        ["--set", "raft.election.timeout.min.ms=250", "--set", "raft.heartbeat.ms=84"],
        "raft.heartbeat.ms = 84 (flag): at most 83 is allowed",
    ),
    (["--set", "group.max.sise=3"], "group.max.sise (flag): there is no such setting; did you mean group"),
    (["--set", "frobnicate=3"], "there is no such setting; `groupd config` lists all settings"),
    (["--set", "nodes"], "NAME=VALUE is expected, such as --set nodes=1"),
]  # fmt: skip


def line_of(stderr: str) -> str:
    """Return the only line that the command printed to its user."""
    (line,) = stderr.splitlines()
    return line


@pytest.mark.parametrize(("flags", "said"), WRONG, ids=[" ".join(flags) for flags, _ in WRONG])
def test_a_wrong_flag_is_one_line_before_anything_is_made(
    tmp_path: Path, flags: list[str], said: str
) -> None:
    result = RUNNER.invoke(app, ["up", "--data-dir", str(tmp_path / "data"), *flags])
    assert (result.exit_code, result.stdout) == (WRONG_SETTING, "")
    assert said in line_of(result.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "file", "said"),
    [
        ({"GROUPD_NODES": "x"}, "", "nodes = 'x' (environment): a whole number from 1 to 99 is allowed"),
        ({"GROUPD_NODS": "1"}, "", "GROUPD_NODS (environment): there is no such setting; did you mean"),
        ({}, "nodes = 'x'", "nodes = 'x' (file {file}): a whole number from 1 to 99 is allowed"),
        ({}, "nodes = true", "nodes = True (file {file}): a whole number from 1 to 99 is allowed"),
        ({}, "[group]\nmax.sise = 3", "did you mean group.max.size?"),
        ({}, "nodes = ", "{file}: is no TOML"),
    ],
)  # fmt: skip
def test_a_wrong_environment_or_file_is_named(
    tmp_path: Path, environment: dict[str, str], file: str, said: str
) -> None:
    config = tmp_path / "tier.toml"
    config.write_text(file, encoding="utf-8")
    command = ["up", "--data-dir", str(tmp_path / "data"), "--config", str(config)]
    result = RUNNER.invoke(app, command, env=environment)
    assert (result.exit_code, result.stdout) == (WRONG_SETTING, "")
    assert said.format(file=config) in line_of(result.stderr)
    assert list(tmp_path.iterdir()) == [config]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    command = ["up", "--data-dir", str(tmp_path / "data"), "--config", str(missing)]
    result = RUNNER.invoke(app, command)
    assert result.exit_code == WRONG_SETTING
    assert f"--config {missing}: cannot be read: " in line_of(result.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", [name for name, setting in SETTINGS.items() if isinstance(setting.default, int)]
)
def test_what_is_allowed_is_what_the_actors_accept(name: str) -> None:
    """Both ends of every range are either refused in words here, or taken by the actors."""
    setting = SETTINGS[name]
    for value in {setting.low, setting.high} - {None}:
        try:
            settings = load({name: value}, environment={})
        except SettingsError:
            continue
        accepted_by_actors(settings)


def accepted_by_actors(settings: Settings) -> None:
    ConnectionLimits.of(settings.broker)
    RaftConfig(
        heartbeat_s=settings.raft.heartbeat_ms / 1000,
        election_min_s=settings.raft.election_timeout_min_ms / 1000,
        election_max_s=settings.raft.election_timeout_max_ms / 1000,
        snapshot_journal_bytes_min=settings.raft.snapshot_journal_bytes_min,
    )


# Data directories.

NODE = NodeSpec(node_id=1, host="127.0.0.1", port=9092)
STOPPED = TierFile(
    tier_id="AAAAAAAAAAAAAAAAAAAAAA",
    nodes=(NODE,),
    placement=(copies((1, 1, 1)),),
    controllers=copies((1, 1, 1)),
    ray_address="",
    started_partitions=1,
)
SAME_SHAPE = ("--nodes", "1", "--partitions", "1", "--replicas", "3")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The data directory of a tier that was stopped, with something in it."""
    path = tmp_path / "data"
    (path / "node-1" / "partition-0-0").mkdir(parents=True)
    (path / "node-1" / "partition-0-0" / "journal").write_bytes(bytes(range(256)))
    tier_file.write(path, STOPPED)
    return path


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refused(data_dir: Path, *flags: str) -> tuple[int, str]:
    """`groupd up`: its exit code and the one line it says."""
    result = RUNNER.invoke(app, ["up", "--data-dir", str(data_dir), *flags])
    assert result.stdout == ""
    return result.exit_code, line_of(result.stderr)


def refused_process(data_dir: Path, *flags: str) -> tuple[int, str]:
    """The same in a process of its own, where it comes so far that it takes the signals."""
    command = [sys.executable, "-m", "cluster.cli", "up", "--data-dir", str(data_dir), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, line_of(done.stderr)


def content(directory: Path) -> dict[str, bytes]:
    """Every file of a directory but its lock, which every user of the directory writes."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize("mode", [(), ("--detach",)], ids=["here", "in the background"])
def test_a_directory_of_another_tier_is_refused(data_dir: Path, mode: tuple[str, ...]) -> None:
    """The directory's data would have to move, because its tier has another shape."""
    before = content(data_dir)
    code, line = refused(data_dir, "--nodes", "3", *mode)
    assert code == FAILED
    assert f"the tier in {data_dir} has 1 nodes: leave that out to start it as it is" in line
    assert content(data_dir) == before


@pytest.mark.parametrize("mode", [(), ("--detach",)], ids=["here", "in the background"])
def test_a_directory_in_use_is_refused(data_dir: Path, mode: tuple[str, ...]) -> None:
    with tier_file.locked(data_dir):
        before = content(data_dir)
        code, line = refused(data_dir, *SAME_SHAPE, *mode)
    assert code == FAILED
    assert f"data directory {data_dir} is in use by process {os.getpid()}" in line
    assert content(data_dir) == before


def test_a_port_in_use_is_refused(data_dir: Path, taken_port: int) -> None:
    before = content(data_dir)
    code, line = refused_process(data_dir, *SAME_SHAPE, "--port", str(taken_port))
    assert code == FAILED
    assert f"cannot listen on 127.0.0.1:{taken_port} (in use by process {os.getpid()}, " in line
    assert content(data_dir) == before


def test_a_port_in_use_is_said_by_a_start_in_the_background_too(data_dir: Path, taken_port: int) -> None:
    before = content(data_dir)
    code, line = refused_process(data_dir, *SAME_SHAPE, "--port", str(taken_port), "--detach")
    assert code == FAILED
    assert f"cannot listen on 127.0.0.1:{taken_port} (" in line
    after = content(data_dir)
    assert "cannot listen on" in after.pop("groupd.log").decode()
    assert after == before


@pytest.mark.parametrize(
    ("tier_json", "said"),
    [
        (b"{", "tier.json cannot be read: "),
        (b"\xff\xfe", "tier.json cannot be read: "),
        (b'{"format": 99}', "has format 99; this groupd reads format 1"),
        (b'{"format": 1}', "is damaged"),
        (b"[]", "is damaged"),
        (b"null", "is damaged"),
    ],
)
def test_a_tier_file_that_cannot_be_read_is_refused(data_dir: Path, tier_json: bytes, said: str) -> None:
    (data_dir / "tier.json").write_bytes(tier_json)
    before = content(data_dir)
    code, line = refused(data_dir)
    assert code == FAILED
    assert said in line
    assert content(data_dir) == before


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"precious")
    code, line = refused(file)
    assert code == FAILED
    assert f"data directory {file} cannot be written: " in line
    assert file.read_bytes() == b"precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_directory_without_permission_is_refused(data_dir: Path) -> None:
    data_dir.chmod(0o500)
    code, line = refused(data_dir, *SAME_SHAPE)
    data_dir.chmod(0o700)
    assert code == FAILED
    assert f"data directory {data_dir} cannot be written: Permission denied" in line


def test_a_host_that_is_unknown_is_named(data_dir: Path) -> None:
    before = content(data_dir)
    code, line = refused_process(data_dir, *SAME_SHAPE, "--host", "no-such-host.invalid")
    assert code == FAILED
    assert "host no-such-host.invalid is unknown" in line
    assert content(data_dir) == before


def test_a_tier_that_was_killed_does_not_hold_its_directory(data_dir: Path, taken_port: int) -> None:
    """tier.json says that it runs, the process is gone: the next start goes as far as its ports."""
    running = tier_file.Running(
        pid=2**22 - 1,
        pid_started_at=0.0,
        bootstrap="127.0.0.1:9092",
        ray_address="127.0.0.1:1",
        ray_is_ours=True,
        run_dir=str(data_dir.parent / "run"),
        ready=True,
    )
    tier_file.write(data_dir, replace(STOPPED, running=running))
    code, line = refused_process(data_dir, *SAME_SHAPE, "--port", str(taken_port))
    assert code == FAILED
    assert "cannot listen on" in line
    assert json.loads((data_dir / "tier.json").read_text())["running"] is None
