"""A disk that is full for a while: nothing unsaved is acknowledged, and service comes back with the space."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import until

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.clients]

DISK_MIB = 192
COMMIT_BYTES = 3_000
"""More than is left in the last page of a journal's file, which a full disk still takes."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own; only root can make one."""
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(where)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


def _commit(consumer: Consumer, offset: int) -> bool:
    wanted = TopicPartition("orders", 0, offset, metadata="m" * COMMIT_BYTES)
    try:
        consumer.commit(offsets=[wanted], asynchronous=False)
    except KafkaException:
        return False
    return True


def _committed(consumer: Consumer) -> int | None:
    try:
        offset: int = consumer.committed([TopicPartition("orders", 0)], 5)[0].offset
    except KafkaException:
        return None
    return offset


def _problems(tier: Tier) -> list[dict[str, Any]]:
    return [replica for replica in tier.replicas() if "No space left" in (replica["problem"] or "")]


def test_commits_stop_while_the_disk_is_full_and_go_on_when_it_has_room(small_disk: Path) -> None:
    """No commit is acknowledged that is not kept, `groupd status` says why, and nobody restarts anything."""
    tier = Tier("--partitions", "1", port=free_ports(3))
    tier.data_dir.rmdir()
    tier.data_dir = small_disk / "data"
    with tier:
        admin = AdminClient({"bootstrap.servers": tier.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
        consumer = Consumer({"bootstrap.servers": tier.bootstrap, "group.id": "billing"})
        assert _commit(consumer, 1)
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(DISK_MIB << 20))
        acknowledged = [1]

        def commits_stopped() -> bool:
            if _commit(consumer, acknowledged[-1] + 1):
                acknowledged.append(acknowledged[-1] + 1)
                return False
            return len(_problems(tier)) >= 2

        until(commits_stopped, "a majority has no space")
        filler.unlink()
        until(lambda: (_committed(consumer) or 0) >= acknowledged[-1], "what was acknowledged is there")
        until(lambda: _commit(consumer, 1_000), "commits are taken again")
        until(lambda: not _problems(tier), "all replicas are back")
        assert _committed(consumer) == 1_000
        consumer.close()
