"""Snapshots in slices are exact: they show what was committed when the build began, whatever happens until it
ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from actors.coordinator.ground.timers import SLOT_MS
from actors.ground.contract import Record, Token
from actors.ground.image import MetadataImage
from actors.ground.records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from actors.ground.snapshot_build import BYTES_PER_STEP_MAX, RECORDS_PER_STEP_MAX, SnapshotBuild
from actors.metadata.records import (
    IMAGE_VERSION,
    TOPIC,
    ImageVersionValue,
    SingletonKey,
    TopicKey,
    TopicValue,
)
from actors.metadata.shard import RECORD_TYPES, MetadataShard
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    SyncGroupRequest,
)
from actors.replica.entry import RecordType
from actors.replica.log_level import FORMAT_VERSION
from actors.replica.replica import Replica
from tests.coordinator.batches import one_by_one
from tests.coordinator.consumer.driver import snapshot as consumer_groups
from tests.metadata.driver import new_shard
from tests.replica.cluster import Cluster, snapshot_of
from tests.replica.world import GROUPS, World

SEEDS = 60
STEPS = 500
State = dict[tuple[Any, ...], tuple[Any, ...]]


def replayed(entries: list[tuple[int, bytes]]) -> State:
    """The records that committed entries leave, in a plain dict. An entry counts in the term in which it was
    decided."""
    state: State = {}
    for term, command in entries:
        unpacker = msgpack.Unpacker(use_list=False)
        unpacker.feed(command)
        if unpacker.unpack() != (FORMAT_VERSION, term):
            continue
        for key, value in one_by_one(unpacker):
            state.pop(key, None)
            if value is not None:
                state[key] = value
    return state


def records_of(data: bytes) -> list[tuple[Any, Any]]:
    unpacker = msgpack.Unpacker(use_list=False)
    unpacker.feed(data)
    assert unpacker.unpack() == (FORMAT_VERSION, 0)
    return list(unpacker)


class SnapshotWorld(World):
    """A world in which every replica is building a snapshot nearly always, a few records at a time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.builds: dict[int, tuple[SnapshotBuild, int]] = {}
        """The build of each node, and the index whose state it has to show."""
        self.completed = self.met_changes = 0

    def steps(self) -> dict[Callable[[], None], int]:
        return super().steps() | {
            self.form_classic_group: 1,
            self.elect: 3,
            self.snapshot: 0,
            self.begin: 8,
            self.go_on: 40,
            self.delete_offsets: 3,
            self.delete_group: 2,
        }

    def form_classic_group(self) -> None:
        """Let three members join and sync, so that a classic group is stored until their sessions end."""
        cluster, group_id = self.cluster, f"formed-{self.chance.randrange(4)}"
        cluster.log.lease = True
        first = self.answered([cluster.send_join(group_id) for _ in range(3)])
        again = [cluster.send_join(group_id, answer.member_id) for answer in first]
        for _ in range(4):
            cluster.now_ms += 3_000
            cluster.leader.run_timers(cluster.now_ms)
        for answer in self.answered(again):
            if answer is None or answer.error_code:
                continue
            member_id, generation = answer.member_id, answer.generation_id
            assignments = tuple((member_id, b"all") for member_id, _, _ in answer.members)
            body = SyncGroupRequest(group_id, generation, member_id, None, "consumer", "range", assignments)
            self.sent.append(cluster.send(api_keys.SYNC_GROUP, body, 5))

    def answered(self, tokens: list[Token]) -> list[Any]:
        self.sent += tokens
        self.cluster.flush_and_commit()
        return [self.cluster.answers.get(token) for token in tokens]

    def beat(self) -> None:
        """Send heartbeats, also with regular expressions."""
        super().beat()
        group_id, member_id = f"consumer-{self.chance.randrange(2)}", f"r{self.chance.randrange(3)}"
        regex = self.chance.choice(["t.*", "[tu]", "t|v", "x"])
        body = ConsumerGroupHeartbeatRequest(
            group_id,
            member_id,
            self.chance.choice([0, -1]),
            rebalance_timeout_ms=5_000,
            subscribed_topic_regex=regex,
            topic_partitions=(),
        )
        self.sent.append(self.cluster.send(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1))

    def check(self) -> None:
        """Compare nothing after a step: a whole snapshot would abandon those under way. `settle` compares."""

    def delete_offsets(self) -> None:
        body = OffsetDeleteRequest(self.chance.choice(GROUPS), (("t", (self.chance.randrange(4),)),))
        self.sent.append(self.cluster.send(api_keys.OFFSET_DELETE, body, 0))

    def delete_group(self) -> None:
        group_ids = self.chance.choice([*GROUPS, "classic-0", "consumer-0"])
        self.sent.append(self.cluster.send(api_keys.DELETE_GROUPS, DeleteGroupsRequest((group_ids,)), 2))

    def learn(self) -> None:
        """Forget what was acknowledged: the test deletes offsets, so a fetch may find less."""
        self.commits.clear()
        self.fetches.clear()

    def begin(self) -> None:
        node = self.chance.randrange(3)
        if node not in self.builds or self.chance.random() < 0.05:
            build = self.cluster.replicas[node].begin_snapshot()
            self.builds[node] = (build, self.cluster.applied[node])

    def go_on(self) -> None:
        if not self.builds:
            return
        node = self.chance.choice(sorted(self.builds))
        build, index = self.builds[node]
        data = build.step(self.chance.randint(1, 4))
        if data is None:
            return
        del self.builds[node]
        entries = self.cluster.entries
        expected = replayed(entries[:index])
        assert dict(records_of(data)) == expected, f"node {node}, index {index}"
        self.completed += 1
        self.met_changes += expected != replayed(entries[: self.cluster.committed])
        self.check_any_order(data)
        self.restore_somewhere(data, index)

    def check_any_order(self, data: bytes) -> None:
        """Check that `apply` takes the records in any order, and twice, and that the same is derived from
        them."""
        header, records = msgpack.packb((1, 0)), records_of(data)
        again = self.chance.sample(records, len(records) // 3)
        mixed = self.chance.sample([*records, *again], len(records) + len(again))
        shards = [
            self.cluster.shard_of(header + b"".join(map(msgpack.packb, order))) for order in (records, mixed)
        ]
        assert dict(shards[0].records()) == dict(shards[1].records()) == dict(records)
        assert consumer_groups(shards[0].state) == consumer_groups(shards[1].state)

    def restore_somewhere(self, data: bytes, index: int) -> None:
        """Start a follower anew from the snapshot, and let it take the entries behind it."""
        cluster = self.cluster
        node = self.chance.randrange(3)
        if node == cluster.leader_node or self.chance.random() < 0.5:
            return
        cluster.replicas[node].restore(data)
        self.builds.pop(node, None)
        cluster.applied[node] = index
        cluster.catch_up(node)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_snapshot_is_the_state_at_its_beginning_whatever_happens_meanwhile(seed: int) -> None:
    """These are rules R4 and R7, and section 7 of the Raft paper: they hold on leaders, on followers, and
    when leadership is lost.
    """
    world = SnapshotWorld(seed)
    for _ in range(STEPS):
        world.step()
    assert world.completed >= 5
    assert world.met_changes >= 2, "too little changed while the snapshots were built"
    world.settle()


# Single cases.


def offsets_in(data: bytes) -> dict[int, int]:
    """The offsets of the one group's topic, by partition."""
    return {key[3]: value[0] for key, value in records_of(data)}


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.elect(0)
    for partition in range(4):
        cluster.send_commit("g", partition, partition)
    cluster.flush_and_commit()
    return cluster


def test_what_was_deleted_since_is_in_the_snapshot_and_what_was_made_since_is_not(cluster: Cluster) -> None:
    build = cluster.leader.begin_snapshot()
    cluster.send(api_keys.DELETE_GROUPS, DeleteGroupsRequest(("g",)), 2)
    cluster.send_commit("h", 7)
    cluster.flush_and_commit()
    assert {key[1] for key, _ in cluster.leader.shard.records()} == {"h"}
    data = build.step()
    assert data is not None
    assert {key[1] for key, _ in records_of(data)} == {"g"}
    assert offsets_in(data) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_leader_that_falls_during_a_build_completes_it(cluster: Cluster) -> None:
    """The snapshot has nothing that was uncommitted when its build began, nor what is undone later."""
    cluster.send_commit("g", 10, 0)
    cluster.leader.flush()
    cluster.send_commit("g", 20, 0)
    build = cluster.leader.begin_snapshot()
    assert build.step(1) is None
    cluster.send_commit("g", 30, 1)
    cluster.elect(1, surviving=0)
    cluster.send_commit("g", 40, 2)
    cluster.flush_and_commit()
    data = build.step()
    assert data is not None
    assert offsets_in(data) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_step_is_bounded_in_records_and_in_bytes() -> None:
    value = OffsetCommitValue(1, -1, "", 0, -1, bytes(16))
    small = [
        Record(OffsetCommitKey(OFFSET_COMMIT, "g", "t", p), value) for p in range(2 * RECORDS_PER_STEP_MAX)
    ]
    build = SnapshotBuild((1, 0), iter(small), {})
    assert [build.step() is None for _ in range(3)] == [True, True, False]
    big = [Record(key, value._replace(metadata="x" * (BYTES_PER_STEP_MAX // 4))) for key, _ in small[:10]]
    build = SnapshotBuild((1, 0), iter(big), {})
    assert [build.step() is None for _ in range(3)] == [True, True, False]


def test_a_new_build_or_a_restore_abandons_the_one_under_way(cluster: Cluster) -> None:
    first = cluster.leader.begin_snapshot()
    second = cluster.leader.begin_snapshot()
    with pytest.raises(AssertionError, match="abandoned"):
        first.step()
    data = second.step()
    assert data is not None
    assert offsets_in(data) == {0: 0, 1: 1, 2: 2, 3: 3}
    follower = cluster.replicas[1]
    third = follower.begin_snapshot()
    follower.restore(data)
    with pytest.raises(AssertionError, match="abandoned"):
        third.step()
    assert offsets_in(snapshot_of(follower)) == offsets_in(data)


def test_the_controllers_records_are_walked_while_topics_come_and_go() -> None:
    """A snapshot of the metadata shard, made on a follower of its group, is exact, too."""
    replica = Replica(
        new_shard=new_shard,
        record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
        release=lambda token, body: None,
        clock_ms=lambda: 0,
        on_events=lambda events: None,
    )

    def commit(*records: tuple[Any, Any]) -> None:
        replica.apply(1, 1, msgpack.packb((1, 1)) + b"".join(map(msgpack.packb, records)))

    topics = {f"t{n}": TopicValue(n.to_bytes(16, "big"), (1, 2), ()) for n in range(9)}
    version = SingletonKey(IMAGE_VERSION)
    commit(*((TopicKey(TOPIC, name), topic) for name, topic in topics.items()))
    commit((version, ImageVersionValue(1)))
    build = replica.begin_snapshot()
    assert build.step(4) is None
    commit((TopicKey(TOPIC, "t1"), None), (TopicKey(TOPIC, "t7"), None), (version, ImageVersionValue(2)))
    commit((TopicKey(TOPIC, "t5"), topics["t5"]._replace(configs=(("retention.ms", "1"),))))
    commit((TopicKey(TOPIC, "t9"), TopicValue(bytes(16), (1,), ())))
    data = build.step()
    assert data is not None
    expected: dict[Any, Any] = {TopicKey(TOPIC, name): topic for name, topic in topics.items()}
    assert dict(records_of(data)) == expected | {version: (1,)}
    replica.restore(data)
    assert isinstance(replica.shard, MetadataShard)
    assert set(replica.shard.image().created_topics) == set(topics)
    assert replica.shard.image().version == 1


def test_the_state_may_change_between_any_two_records(cluster: Cluster) -> None:
    """The test walks over live records without a build: the walk does not raise when some are removed."""
    records = cluster.leader.shard.records()
    next(records)
    cluster.set_image(MetadataImage(version=2))
    cluster.pass_time(SLOT_MS)
    cluster.flush_and_commit()
    assert list(records) == []
