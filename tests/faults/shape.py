"""The group of three replicas that these tests run: who it is, and where its directories and sockets are."""

from __future__ import annotations

from pathlib import Path

from actors.ground.spec import NodeSpec, RaftSettings, TierSpec, copies, partition_group

REPLICAS = (0, 1, 2)
GROUP = partition_group(0)
TOPIC = "orders"
PAIRS = 32
"""Pairs of partitions of the topic: a commit is for one pair."""
SEGMENT_BYTES = 32 * 1024


def spec_of(root: Path, run_dir: Path, replica_id: int) -> TierSpec:
    """What a replica's process is told. Each has a data directory of its own, as on a machine of its own;
    small segments and snapshots, so that many of both come and go in a test."""
    nodes = tuple(NodeSpec(node_id=replica + 1, host="127.0.0.1", port=1) for replica in REPLICAS)
    replicas = copies([node.node_id for node in nodes])
    faults = faults_of(root)
    return TierSpec(
        tier_id="faults",
        secret="between three processes",
        data_dir=str(disk_of(root, replica_id)),
        run_dir=str(run_dir),
        nodes=nodes,
        placement=(replicas,),
        controllers=replicas,
        raft=RaftSettings(
            heartbeat_ms=75,
            election_timeout_min_ms=300,
            election_timeout_max_ms=600,
            journal_segment_bytes=SEGMENT_BYTES,
            snapshot_journal_bytes_min=4 * SEGMENT_BYTES,
            faults_file=str(faults) if faults.exists() else "",
        ),
    )


def faults_of(root: Path) -> Path:
    """Return the path of the file that says what is wrong with disks; it counts if it is there from the
    beginning."""
    return root / "faults.json"


def disk_of(root: Path, replica_id: int) -> Path:
    return root / f"disk-{replica_id}"


def directory_of(root: Path, replica_id: int) -> Path:
    """Return the directory in which a replica keeps `journal` and `snapshot`."""
    return Path(spec_of(root, root, replica_id).directory(GROUP, replica_id, replica_id + 1))


def clients_socket(run_dir: Path, replica_id: int) -> Path:
    """Return the path of the socket on which a replica takes Kafka requests."""
    return run_dir / f"clients-{replica_id}.sock"


def control_socket(run_dir: Path, replica_id: int) -> Path:
    """Takes one line of JSON a connection, and answers one."""
    return run_dir / f"control-{replica_id}.sock"
