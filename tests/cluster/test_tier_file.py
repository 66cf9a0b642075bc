"""The data directory: whose it is, who uses it, what is refused before anything starts."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from actors.spec import NodeSpec
from cluster import tier_file
from cluster.tier_file import Running, TierError, TierFile

TIER = TierFile(
    tier_id="t" * 22,
    nodes=(NodeSpec(node_id=1, host="127.0.0.1", port=1, rack="a"), NodeSpec(node_id=2, host="h", port=2)),
    placement=((1, 2), (2, 1)),
    controllers=(1,),
    ray_address="",
)
RUNNING = Running(
    pid=os.getpid(),
    pid_started_at=None,
    bootstrap="127.0.0.1:1,h:2",
    ray_address="127.0.0.1:3",
    ray_is_ours=True,
    run_dir="/tmp/groupd-x",
    ready=True,
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert tier_file.read(tmp_path) is None
    for tier in (TIER, replace(TIER, running=RUNNING)):
        tier_file.write(tmp_path, tier)
        assert tier_file.read(tmp_path) == tier
    tier_file.stopped(tmp_path)
    assert tier_file.read(tmp_path) == TIER


@pytest.mark.parametrize(
    ("content", "said"),
    [('{"format": 99}', "format 99"), ("{", "cannot be read"), ('{"format": 1}', "damaged")],
)
def test_a_file_we_do_not_understand_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "tier.json").write_text(content)
    with pytest.raises(TierError, match=said):
        tier_file.read(tmp_path)


def test_a_tier_that_does_not_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(TierError, match="there is no tier"):
        tier_file.require_running(tmp_path)
    tier_file.write(tmp_path, TIER)
    with pytest.raises(TierError, match="does not run"):
        tier_file.require_running(tmp_path)
    # The process id was given to another process since.
    tier_file.write(tmp_path, replace(TIER, running=replace(RUNNING, pid_started_at=1.0)))
    with pytest.raises(TierError, match="does not run"):
        tier_file.require_running(tmp_path)
    tier_file.write(tmp_path, replace(TIER, running=RUNNING))
    assert tier_file.require_running(tmp_path)[1] == RUNNING


def test_a_directory_in_use_names_its_user(tmp_path: Path) -> None:
    in_use = pytest.raises(TierError, match=f"in use by process {os.getpid()}")
    with tier_file.locked(tmp_path), in_use, tier_file.locked(tmp_path):
        pytest.fail("two processes hold one directory")
    with tier_file.locked(tmp_path):
        """Free again."""


def test_a_shape_that_would_move_data_is_refused(tmp_path: Path) -> None:
    tier_file.check_same_shape(tmp_path, TIER, {"nodes": 2, "port": 5})
    with pytest.raises(TierError, match=r"was made with nodes = 2 and cannot change to 3"):
        tier_file.check_same_shape(tmp_path, TIER, {"nodes": 3})
    with pytest.raises(TierError, match=r"offsets.topic.num.partitions = 2"):
        tier_file.check_same_shape(tmp_path, TIER, {"offsets.topic.num.partitions": 4})


def test_ports_in_use_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        taken_port, free_port = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        with pytest.raises(TierError, match=f"127.0.0.1:{taken_port} .*--port") as error:
            tier_file.check_ports_free([("127.0.0.1", taken_port), ("127.0.0.1", free_port)])
        assert f":{free_port}" not in str(error.value)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TierError, match=r"file/data cannot be written"):
        tier_file.prepare(tmp_path / "file" / "data")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_file, "DISK_FREE_BYTES_MIN", 1 << 62)
    with pytest.raises(TierError, match="MiB free"):
        tier_file.prepare(tmp_path)


def test_a_secret_is_kept_and_only_for_its_owner(tmp_path: Path) -> None:
    path, value = tier_file.secret(tmp_path, "secret")
    assert len(value) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tier_file.secret(tmp_path, "secret") == (path, value)
