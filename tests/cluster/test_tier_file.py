"""The data directory: whose it is, who uses it, what is refused before anything starts."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from actors.controller import placement_file
from actors.controller.placement_file import SavedPlacement
from actors.ground.spec import Copy, NodeSpec, UpstreamSpec, copies
from actors.metadata.records import GroupPlacementValue, SplitValue
from cluster import tier_file
from cluster.tier_file import Running, TierError, TierFile

TIER = TierFile(
    tier_id="t" * 22,
    nodes=(NodeSpec(node_id=1, host="127.0.0.1", port=1, rack="a"), NodeSpec(node_id=2, host="h", port=2)),
    placement=(copies((1, 2)), copies((2, 1))),
    controllers=copies((1,)),
    ray_address="",
    started_partitions=2,
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
    upstream = UpstreamSpec("c", (("b1", 9092), ("b2", 9092)), (("c1", 9093),), 1000, "CLIENTS")
    for tier in (TIER, replace(TIER, upstream=upstream), replace(TIER, running=RUNNING)):
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


def test_a_tier_that_was_split_still_knows_how_many_partitions_it_began_with(tmp_path: Path) -> None:
    """The ports of links between machines follow from that, on machines that were away meanwhile as well."""
    older = replace(TIER, started_partitions=0)  # as a release before splits has written it
    tier_file.write(tmp_path, older)
    split = SplitValue(4, (), ())
    rows = {f"partition-{number}": GroupPlacementValue(TIER.placement[0], 2) for number in (2, 3)}
    placement_file.write(tmp_path, SavedPlacement(TIER.tier_id, 1, rows, split=split))
    known = tier_file.read(tmp_path)
    assert known is not None
    assert (len(known.placement), known.started_partitions) == (4, 2)


MOVED = GroupPlacementValue((Copy(2, 2), Copy(1, 1)), 3, (Copy(0, 2),))


def saved(version: int, tier_id: str = TIER.tier_id) -> SavedPlacement:
    return SavedPlacement(tier_id, version, {"partition-1": MOVED})


def test_a_tier_is_read_with_its_replicas_where_the_controller_put_them(tmp_path: Path) -> None:
    tier_file.write(tmp_path, TIER)
    placement_file.write(tmp_path, saved(7))
    tier = tier_file.read(tmp_path)
    assert tier == replace(
        TIER,
        placement=(TIER.placement[0], MOVED.copies),
        leaving=(("partition-1", Copy(0, 2)),),
        placement_version=7,
    )
    assert tier.copies("partition-1") == (*MOVED.copies, *MOVED.leaving)
    tier_file.stopped(tmp_path)
    (tmp_path / placement_file.NAME).unlink()
    assert tier_file.read(tmp_path) == tier, "what is written next has it too"


def test_an_older_placement_changes_nothing(tmp_path: Path) -> None:
    tier_file.write(tmp_path, replace(TIER, placement_version=7))
    placement_file.write(tmp_path, saved(7))
    assert tier_file.read(tmp_path) == replace(TIER, placement_version=7)
    placement_file.write(tmp_path, saved(6))
    assert placement_file.read(tmp_path) == saved(7)
    placement_file.write(tmp_path, saved(1, "another tier, that was here before"))
    assert tier_file.read(tmp_path) == replace(TIER, placement_version=7)


def test_a_placement_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    tier_file.write(tmp_path, TIER)
    for content, said in (("{", "cannot be read"), ('{"format": 9}', "format 9"), ("[]", "cannot be read")):
        (tmp_path / placement_file.NAME).write_text(content)
        with pytest.raises(TierError, match=rf"placement\.json .*{said}"):
            tier_file.read(tmp_path)
    placement_file.write(tmp_path, saved(1))
    assert placement_file.read(tmp_path) == saved(1)


def test_a_controller_that_forgot_may_count_from_the_start(tmp_path: Path) -> None:
    """The image's versions may begin anew with accepted losses: what is known of places is kept."""
    tier_file.write(tmp_path, TIER)
    placement_file.write(tmp_path, saved(700))
    known = tier_file.read(tmp_path)
    assert known is not None
    tier_file.begin_anew(tmp_path, known)
    assert tier_file.read(tmp_path) == replace(known, placement_version=0)
    placement_file.write(tmp_path, saved(2))
    assert tier_file.read(tmp_path) == replace(known, placement_version=2)


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
    with pytest.raises(TierError, match=r"has 2 nodes: leave that out .* `groupd nodes add --data-dir \S+`"):
        tier_file.check_same_shape(tmp_path, TIER, {"nodes": 3})
    with pytest.raises(TierError, match=r"offsets.topic.num.partitions = 2"):
        tier_file.check_same_shape(tmp_path, TIER, {"offsets.topic.num.partitions": 3})
    with pytest.raises(TierError, match=r"`groupd partitions split --data-dir \S+` doubles it"):
        tier_file.check_same_shape(tmp_path, TIER, {"offsets.topic.num.partitions": 4})
    # What it was made with may still stand in its settings, also after splits.
    tier_file.check_same_shape(tmp_path, TIER, {"offsets.topic.num.partitions": 1})
    with pytest.raises(TierError, match=r"`groupd replicas resize --all 3 --data-dir \S+` changes it"):
        tier_file.check_same_shape(tmp_path, TIER, {"offsets.topic.replication.factor": 3})


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


def test_the_nodes_of_now_are_those_that_the_controller_wrote_last(tmp_path: Path) -> None:
    tier_file.write(tmp_path, replace(TIER, running=RUNNING))
    nodes = (TIER.nodes[1], NodeSpec(node_id=3, host="h3", port=3, machine="h3:9900"))
    placement_file.write(tmp_path, saved(7)._replace(nodes=nodes))
    tier = tier_file.read(tmp_path)
    assert tier is not None
    assert tier.nodes == nodes
    assert tier.running is not None
    assert (tier.running.bootstrap, tier.running.machines) == ("h:2,h3:3", ("h3:9900",))
