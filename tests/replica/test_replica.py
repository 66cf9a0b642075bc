"""Requests are answered once they are committed, and a leader that loses its leadership undoes the rest: the
promises of `actors.replica.replica`."""

from __future__ import annotations

from collections.abc import Iterable

import msgpack
import pytest

from actors.coordinator.ground.timers import SLOT_MS
from actors.ground.contract import Record, Token
from actors.ground.image import MetadataImage
from actors.ground.limits import (
    MIB,
    RAFT_BATCH_BYTES_MAX,
    RAFT_ENTRY_BYTES_MAX,
    RAFT_PENDING_BYTES_MAX,
)
from actors.ground.records import OFFSET_COMMIT, OffsetCommitValue
from actors.ground.release import ReleaseTooOld
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    HeartbeatRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
)
from storage.raft.contract import RaftConfig
from tests.coordinator.driver import START_MS, image_of
from tests.replica.cluster import Cluster, snapshot_of

NOTHING_COMMITTED = [-1, -1, -1, -1]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.elect(0)
    return cluster


def test_a_commit_is_acknowledged_when_its_entry_is_committed(cluster: Cluster) -> None:
    """This is rule R2."""
    token = cluster.send_commit("g", 5)
    assert token not in cluster.answers
    cluster.leader.flush()
    assert token not in cluster.answers
    cluster.commit()
    assert cluster.commit_error(token) == 0
    cluster.check_equal()
    assert cluster.leader.is_committed
    assert cluster.leader.owed == 0


def test_a_fetch_waits_for_its_own_groups_commits_only(cluster: Cluster) -> None:
    """R3, O10: no answer speaks of what may yet be undone; other groups do not wait."""
    cluster.send_commit("g", 5)
    same, other = cluster.send_fetch("g"), cluster.send_fetch("h")
    assert cluster.fetched(other) == NOTHING_COMMITTED
    assert same not in cluster.answers
    cluster.leader.flush()
    later, both = cluster.send_fetch("g"), cluster.send_fetch("g", "h")
    assert later not in cluster.answers
    assert both not in cluster.answers
    cluster.commit()
    assert cluster.fetched(same) == cluster.fetched(later) == [5, -1, -1, -1]
    assert both in cluster.answers
    steady = cluster.send_fetch("g")
    assert cluster.fetched(steady) == [5, -1, -1, -1]


def test_requests_of_one_iteration_share_an_entry(cluster: Cluster) -> None:
    """This is rule R5."""
    before = len(cluster.entries)
    tokens = [cluster.send_commit(f"g{i}", i) for i in range(20)]
    cluster.flush_and_commit()
    assert len(cluster.entries) == before + 1
    assert all(cluster.commit_error(token) == 0 for token in tokens)


def test_entries_commit_one_by_one(cluster: Cluster) -> None:
    """A reply waits for the newest entry of its group, and for no later one of another. Two entries are
    under way at most: the third is made when one of them is committed."""
    tokens = []
    for group_id, offset in (("a", 1), ("b", 2), ("a", 3)):
        tokens.append(cluster.send_commit(group_id, offset))
        cluster.leader.flush()
    fetch_a, fetch_b = cluster.send_fetch("a"), cluster.send_fetch("b")
    listed = cluster.send(api_keys.LIST_GROUPS, ListGroupsRequest(), 5)
    first = len(cluster.entries) - 1
    cluster.commit(first)
    cluster.leader.flush()
    assert set(cluster.answers) & {*tokens, fetch_a, fetch_b} == {tokens[0]}
    cluster.commit(first + 1)
    assert cluster.fetched(fetch_b) == [2, -1, -1, -1]
    assert fetch_a not in cluster.answers
    assert listed not in cluster.answers
    cluster.commit(first + 2)
    assert cluster.fetched(fetch_a) == [3, -1, -1, -1]
    assert listed in cluster.answers


def test_a_fallen_leader_undoes_and_refuses(cluster: Cluster) -> None:
    """R4, C27: what was not committed is gone, whoever waited is told NOT_COORDINATOR."""
    cluster.send_commit("g", 1)
    cluster.flush_and_commit()
    proposed = cluster.send_commit("g", 2)
    cluster.leader.flush()
    batched, fetch = cluster.send_commit("g", 3), cluster.send_fetch("g")
    cluster.elect(1, surviving=0)
    assert [cluster.commit_error(token) for token in (proposed, batched)] == [16, 16]
    assert cluster.answers[fetch].groups[0].error_code == 16
    assert cluster.replicas[0].owed == 0
    assert cluster.fetched(cluster.send_fetch("g")) == [1, -1, -1, -1]
    cluster.check_equal()


def test_an_entry_that_survives_its_leader_counts(cluster: Cluster) -> None:
    """The outcome is indefinite: the old leader refuses the request, and yet the new one commits it."""
    cluster.send_commit("g", 1)
    token = cluster.send_commit("g", 2)
    cluster.leader.flush()
    cluster.elect(1)
    assert cluster.commit_error(token) == 16
    assert cluster.fetched(cluster.send_fetch("g")) == [2, -1, -1, -1]
    cluster.check_equal()


def test_an_entry_of_another_term_is_ignored(cluster: Cluster) -> None:
    """This is rule R7, the term fence: the entry is decided in one term and logged in another."""
    cluster.send_commit("g", 1)
    cluster.leader.flush()
    _, command = cluster.entries.pop()
    cluster.elect(1)
    cluster.entries.append((cluster.term, command))
    cluster.commit()
    assert cluster.fetched(cluster.send_fetch("g")) == NOTHING_COMMITTED
    cluster.check_equal()


def test_a_refused_proposal_is_a_fall(cluster: Cluster) -> None:
    token = cluster.send_commit("g", 1)
    fallen = cluster.leader
    cluster.leader_node = 1
    fallen.flush()
    assert cluster.commit_error(token) == 16
    assert not fallen.serving
    assert list(fallen.shard.records()) == []


def test_without_a_lease_nobody_is_told_anything_old(cluster: Cluster) -> None:
    """A leader that cannot reach a majority may already have been replaced."""
    cluster.log.lease = False
    token = cluster.send_fetch("g")
    cluster.leader.flush()
    assert token not in cluster.answers
    cluster.log.lease = True
    cluster.leader.flush()
    assert cluster.fetched(token) == NOTHING_COMMITTED


def test_who_does_not_lead_or_does_not_yet_serve_says_so(cluster: Cluster) -> None:
    """W4: a heartbeat at a leader that is not yet serving is answered as if all were well."""
    assert cluster.answers[cluster.send_fetch("g", node=1)].groups[0].error_code == 16
    beat = HeartbeatRequest("g", 1, "m")
    assert cluster.answers[cluster.send(api_keys.HEARTBEAT, beat, 4, node=1)].error_code == 16
    cluster.leader_node = 2
    assert cluster.answers[cluster.send_fetch("g")].groups[0].error_code == 14
    assert cluster.answers[cluster.send(api_keys.HEARTBEAT, beat, 4)].error_code == 0


def test_too_much_that_is_pending_refuses_more(cluster: Cluster) -> None:
    cluster.send_commit("g", 0)
    cluster.log.pending_bytes = RAFT_PENDING_BYTES_MAX + 1
    cluster.leader.flush()
    assert cluster.commit_error(cluster.send_commit("g", 1)) == 15


def test_a_big_iteration_makes_several_entries(cluster: Cluster) -> None:
    before = len(cluster.entries)
    metadata = "x" * 4_096
    tokens = [cluster.send_commit("g", i, i % 4, metadata) for i in range(RAFT_BATCH_BYTES_MAX // 3_000)]
    cluster.flush_and_commit()
    assert len(cluster.entries) - before >= 2
    assert max(len(command) for _, command in cluster.entries) < RAFT_BATCH_BYTES_MAX + 5_000
    cluster.end_long_works()
    assert all(cluster.commit_error(token) == 0 for token in tokens)
    cluster.check_equal()


def send_big_commit(cluster: Cluster, size_bytes: int) -> Token:
    """Send one commit whose records are a little more than `size_bytes`."""
    partitions = tuple(CommittedPartition(p, 1, -1, "x" * 4_096) for p in range(size_bytes // 4_096))
    body = OffsetCommitRequest("big", -1, "", None, -1, (("t", partitions),))
    return cluster.send(api_keys.OFFSET_COMMIT, body)


def test_the_records_of_one_decision_survive_together_or_not_at_all() -> None:
    """This holds beyond the size at which an entry is full, too: the leader may fall between any two
    entries."""
    cluster = Cluster(image_of(1, t=10_000))
    cluster.elect(0)
    before = len(cluster.entries)
    small = [cluster.send_commit("g", i, i, "x" * 4_096) for i in range(RAFT_BATCH_BYTES_MAX // 4_200)]
    big = send_big_commit(cluster, RAFT_ENTRY_BYTES_MAX - RAFT_BATCH_BYTES_MAX - 2 * MIB)
    later = cluster.send_commit("g", 1)
    cluster.leader.flush()
    sizes = [len(command) for _, command in cluster.entries[before:]]
    assert len(sizes) == 2
    assert RAFT_ENTRY_BYTES_MAX - 3 * MIB < sizes[0] <= RAFT_ENTRY_BYTES_MAX == RaftConfig().entry_bytes_max
    cluster.commit(before + 1)
    cluster.end_long_works()
    assert {*small, big} <= cluster.answers.keys()
    assert later not in cluster.answers
    cluster.commit()
    assert cluster.commit_error(later) == 0
    cluster.check_equal()


def test_a_decision_too_big_for_any_entry_is_answered_with_its_last_piece() -> None:
    cluster = Cluster(image_of(1, t=10_000))
    cluster.elect(0)
    before = len(cluster.entries)
    token = send_big_commit(cluster, RAFT_ENTRY_BYTES_MAX + 6 * MIB)
    cluster.leader.flush()
    first, last = (len(command) for _, command in cluster.entries[before:])
    assert RAFT_ENTRY_BYTES_MAX - 5_000 < first <= RAFT_ENTRY_BYTES_MAX
    assert 6 * MIB < last < 8 * MIB
    cluster.commit(before + 1)
    assert token not in cluster.answers
    cluster.commit()
    assert token in cluster.answers
    cluster.check_equal()


def test_a_snapshot_holds_what_is_committed_and_leaves_speculation_alone(cluster: Cluster) -> None:
    cluster.send_commit("g", 1)
    cluster.flush_and_commit()
    cluster.send_commit("g", 2)
    cluster.leader.flush()
    token = cluster.send_commit("g", 3)
    assert offsets(cluster.records_in(snapshot_of(cluster.leader))) == [1]
    assert offsets(cluster.leader.shard.records()) == [3]
    cluster.flush_and_commit()
    assert cluster.commit_error(token) == 0
    cluster.check_equal()


def offsets(records: Iterable[Record]) -> list[int]:
    return [value.offset for _, value in records if isinstance(value, OffsetCommitValue)]


def test_a_restored_replica_goes_on_where_the_snapshot_ends(cluster: Cluster) -> None:
    cluster.send_commit("g", 1)
    cluster.flush_and_commit()
    cluster.replicas[2].restore(snapshot_of(cluster.leader))
    cluster.send_commit("g", 2, partition=1)
    cluster.flush_and_commit()
    cluster.elect(2)
    assert cluster.fetched(cluster.send_fetch("g")) == [1, 2, -1, -1]
    assert cluster.commit_error(cluster.send_commit("g", 3, partition=9)) == 3
    cluster.check_equal()


def test_timers_fire_on_the_leader_alone_and_bring_members_to_a_new_leader(cluster: Cluster) -> None:
    """C10, C26: a join is answered by a timer, when the record it wrote is committed."""
    token = cluster.send_join("g")
    cluster.flush_and_commit()
    join = cluster.send_join("g", cluster.answers[token].member_id)
    cluster.flush_and_commit()
    cluster.pass_time(10_000)
    assert [replica.next_deadline_ms for replica in cluster.replicas[1:]] == [None, None]
    cluster.flush_and_commit()
    assert cluster.answers[join].error_code == 0
    cluster.check_equal()


def test_the_leader_alone_writes_what_a_deleted_topic_leaves(cluster: Cluster) -> None:
    """This is rule O16."""
    cluster.send_commit("g", 1)
    cluster.flush_and_commit()
    before = len(cluster.entries)
    cluster.set_image(MetadataImage(version=2))
    cluster.pass_time(SLOT_MS)
    cluster.flush_and_commit()
    assert len(cluster.entries) == before + 1
    assert [list(replica.shard.records()) for replica in cluster.replicas] == [[], [], []]


def test_an_older_image_is_not_taken(cluster: Cluster) -> None:
    cluster.set_image(image_of(7, t=4, u=1))
    cluster.set_image(image_of(6, t=4))
    for node in range(3):
        cluster.leader_node = node
        cluster.replicas[node].on_leading(cluster.term)
        topics = (("u", (CommittedPartition(0, 1),)),)
        token = cluster.send(api_keys.OFFSET_COMMIT, OffsetCommitRequest("g", -1, "", None, -1, topics))
        cluster.flush_and_commit()
        assert cluster.commit_error(token) == 0
        cluster.leader.on_fallen()


def test_unknown_records_are_skipped_and_unknown_formats_are_not(cluster: Cluster) -> None:
    """R6; an entry of a format that this release cannot read must not pass for an empty one."""
    pack = msgpack.packb
    newer = pack((1, cluster.term)) + pack(((9_999, "g", 1), (2, 3)))
    cluster.entries.append((cluster.term, newer))
    cluster.commit()
    assert list(cluster.leader.shard.records()) == []
    with pytest.raises(ReleaseTooOld, match=r"level 98 of groupd\.version"):
        cluster.leader.apply(len(cluster.entries) + 1, cluster.term, pack((99, cluster.term)))


def test_what_version_1_wrote_is_read(cluster: Cluster) -> None:
    """Version 1 wrote entries and snapshots with an offset for each partition, and no batches."""
    pack = msgpack.packb
    record = pack(((OFFSET_COMMIT, "g", "t", 1), (7, -1, "", START_MS, -1, bytes(16))))
    cluster.entries.append((cluster.term, pack((1, cluster.term)) + record))
    cluster.commit()
    assert offsets(cluster.leader.shard.records()) == [7]
    assert offsets(cluster.shard_of(pack((1, 0)) + record).records()) == [7]
