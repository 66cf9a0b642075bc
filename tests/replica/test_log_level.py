"""A replica writes at the level that is finalized, says so in its log, and refuses what it cannot serve."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgpack
import pytest

from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.image import MetadataImage
from actors.ground.release import LEVEL_MAX, ReleaseTooOld
from actors.metadata.wire import Unreadable, pack_image, unpack_image
from actors.replica.host import ReplicaHost
from actors.replica.log_level import FORMAT_VERSION
from storage.raft.disk import Disk
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import FOUNDING_INCARNATION, founders
from storage.raft.skeleton import REGULAR
from tests.coordinator.alone import TYPES
from tests.coordinator.driver import image_of
from tests.coordinator.shards import new_shard
from tests.ground.specs import spec_in
from tests.replica.cluster import Cluster, snapshot_of

OLD, NEW = FORMAT_VERSION, FORMAT_VERSION + 1
ABOVE = FORMAT_VERSION + LEVEL_MAX
"""The format version of the level above all that this release can serve."""


def image_at(level: int, version: int = 2) -> MetadataImage:
    image = image_of(version, t=4)
    image.features = Features(1, ((GROUPD_VERSION, level),))
    return image


def versions(cluster: Cluster) -> list[int]:
    """Return the format version of each entry of the log."""
    return [first_of(command) for _, command in cluster.entries]


def first_of(command: bytes) -> int:
    unpacker = msgpack.Unpacker(use_list=False)
    unpacker.feed(command)
    version, _ = unpacker.unpack()
    return int(version)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.elect(0)
    return cluster


def test_before_finalizing_an_older_release_reads_all_that_is_written(cluster: Cluster) -> None:
    cluster.send_commit("g", 5)
    cluster.flush_and_commit()
    assert versions(cluster) == [OLD]
    assert first_of(snapshot_of(cluster.leader)) == OLD


def test_a_finalized_level_is_said_by_an_entry_of_its_own_and_by_all_that_follow(cluster: Cluster) -> None:
    cluster.send_commit("g", 5)
    cluster.flush_and_commit()
    cluster.set_image(image_at(2))
    cluster.flush_and_commit()
    assert versions(cluster) == [OLD, NEW]
    cluster.send_commit("g", 6)
    cluster.flush_and_commit()
    assert versions(cluster) == [OLD, NEW, NEW]
    assert [first_of(snapshot_of(replica)) for replica in cluster.replicas] == [NEW] * 3
    cluster.check_equal()


def test_what_is_decided_before_the_level_is_known_stays_as_it_was(cluster: Cluster) -> None:
    token = cluster.send_commit("g", 5)
    cluster.set_image(image_at(2))
    cluster.flush_and_commit()
    assert versions(cluster) == [OLD, NEW]
    assert cluster.commit_error(token) == 0


def test_a_leader_that_falls_before_it_said_the_level_leaves_that_to_the_next(cluster: Cluster) -> None:
    cluster.set_image(image_at(2))
    cluster.leader.flush()
    cluster.elect(1, surviving=0)
    cluster.flush_and_commit()
    assert versions(cluster) == [NEW]


def test_a_leader_that_has_not_heard_of_the_level_knows_it_from_its_log(cluster: Cluster) -> None:
    cluster.set_image(image_at(2))
    cluster.flush_and_commit()
    cluster.replicas[1].on_metadata(image_at(1, version=3), cluster.now_ms)
    cluster.elect(1)
    cluster.send_commit("g", 5)
    cluster.flush_and_commit()
    assert versions(cluster) == [NEW, NEW]


def test_an_entry_or_a_snapshot_of_a_level_above_is_refused_by_name(cluster: Cluster) -> None:
    above = msgpack.packb((ABOVE, 1))
    for refuse in (lambda: cluster.replicas[1].apply(1, 1, above), lambda: cluster.leader.restore(above)):
        with pytest.raises(ReleaseTooOld, match=f"at level {LEVEL_MAX + 1} of groupd.version"):
            refuse()


def test_a_node_refuses_an_image_of_a_level_above_by_name() -> None:
    packed = pack_image(image_at(LEVEL_MAX + 1))
    with pytest.raises(Unreadable, match=f"the tier is at level {LEVEL_MAX + 1} of groupd.version"):
        unpack_image(packed)
    assert unpack_image(pack_image(image_at(LEVEL_MAX))).features.level(GROUPD_VERSION) == LEVEL_MAX


def test_a_replica_whose_log_is_above_its_release_does_not_start(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, nodes=1)
    host = ReplicaHost(
        spec,
        "partition-0",
        0,
        new_shard=new_shard,
        record_types=TYPES,
        release=lambda token, answer: None,
        on_events=lambda events: None,
        on_turn=lambda: None,
    )
    write_log(host, msgpack.packb((ABOVE, 1)))

    async def story() -> None:
        with pytest.raises(ReleaseTooOld, match="the log of partition-0-0 is at level"):
            await host.start()

    asyncio.run(story())


def write_log(host: ReplicaHost, command: bytes) -> None:
    """Leave a log behind in which a newer release wrote this entry last."""
    journal = Journal(
        Disk(),
        str(host.directory / "journal"),
        Identity(tier_id=host.spec.tier_id, replica_id=f"{host.group}-{host.replica_id}"),
        executor=None,
        notify=lambda: None,
        genesis=Genesis(FOUNDING_INCARNATION, founders({0: 1})),
    )
    journal.append((REGULAR + command, 1, 1))
    journal.flush()
    journal.close()
