"""Long work is done in slices: answers are of one moment, a failover ends deletions, and leadership is taken
over bit by bit."""

from __future__ import annotations

from typing import Any

import pytest

from actors.coordinator.classic.state import classic_groups
from actors.coordinator.ground.slices import AT_ONCE_MAX, SLICE_MAX
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, Token
from actors.ground.limits import LONG_WORKS_MAX
from actors.ground.records import (
    CLASSIC_MEMBER,
    DYING_GROUP,
    GROUP_METADATA,
    ClassicMemberKey,
    ClassicMemberValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from actors.protocol import api_keys
from actors.protocol import messages as m
from tests.coordinator.driver import image_of
from tests.replica.cluster import Cluster

MANY = 6_000
"""More offsets than a fetch answers, or a deletion removes, at once."""
NO_ERROR, LOADING, NOT_COORDINATOR, NOT_AVAILABLE, NOT_FOUND = 0, 14, 16, 15, 69


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(image_of(1, t=MANY, u=4))
    cluster.elect(0)
    commit_many(cluster, "big", 1)
    return cluster


def commit_many(cluster: Cluster, group_id: str, offset: int) -> None:
    rows = tuple(m.CommittedPartition(partition, offset, -1, "") for partition in range(MANY))
    body = m.OffsetCommitRequest(group_id, -1, "", None, -1, (("t", rows),))
    cluster.send(api_keys.OFFSET_COMMIT, body)
    cluster.flush_and_commit()


def state_of(cluster: Cluster, node: int | None = None) -> ShardState:
    shard: Any = cluster.leader.shard if node is None else cluster.replicas[node].shard
    state: ShardState = shard.state
    return state


def fetch_all(cluster: Cluster, *group_ids: str, version: int = 8) -> Token:
    groups = tuple(m.OffsetFetchGroup(group_id, None) for group_id in group_ids)
    return cluster.send(api_keys.OFFSET_FETCH, m.OffsetFetchRequest(groups), version)


def delete(cluster: Cluster, *group_ids: str) -> Token:
    return cluster.send(api_keys.DELETE_GROUPS, m.DeleteGroupsRequest(group_ids), 2)


def a_slice(cluster: Cluster) -> None:
    cluster.leader.run_timers(cluster.now_ms)


def begin_deletion(cluster: Cluster) -> None:
    """Begin a deletion: it is decided, committed, and about half done."""
    token = delete(cluster, "big")
    cluster.flush_and_commit()
    assert cluster.answers[token].results == (("big", NO_ERROR),)
    cluster.now_ms += 20
    for _ in range(MANY // SLICE_MAX // 2 + 1):
        a_slice(cluster)
        cluster.flush_and_commit()
    assert 0 < len(state_of(cluster).offsets["big"]) < MANY


def end_deletion(cluster: Cluster) -> None:
    cluster.now_ms += 20
    a_slice(cluster)
    while cluster.leader.next_deadline_ms == 0:
        a_slice(cluster)
        cluster.flush_and_commit()


# Fetches in slices.


def test_a_fetch_in_slices_tells_of_one_moment(cluster: Cluster) -> None:
    """A commit in the middle of a fetch is in none of its offsets, and in all of the next fetch's."""
    token = fetch_all(cluster, "big")
    a_slice(cluster)
    a_slice(cluster)
    commit_many(cluster, "big", 2)
    assert token not in cluster.answers
    cluster.end_long_works()
    again = fetch_all(cluster, "big")
    cluster.end_long_works()
    for each, offset in ((token, 1), (again, 2)):
        (group,) = cluster.answers[each].groups
        ((topic, rows),) = group.topics
        assert topic == "t"
        assert [tuple(row)[:2] for row in rows] == [(partition, offset) for partition in range(MANY)]
    assert state_of(cluster).readings == []


def test_a_fetch_in_slices_knows_neither_what_came_nor_lacks_what_went_meanwhile(cluster: Cluster) -> None:
    token = fetch_all(cluster, "big")
    a_slice(cluster)
    body = m.OffsetDeleteRequest("big", (("t", tuple(range(3))),))
    cluster.send(api_keys.OFFSET_DELETE, body, 0)
    new = m.OffsetCommitRequest("big", -1, "", None, -1, (("u", (m.CommittedPartition(0, 5, -1, ""),)),))
    cluster.send(api_keys.OFFSET_COMMIT, new)
    cluster.flush_and_commit()
    cluster.end_long_works()
    (group,) = cluster.answers[token].groups
    assert [(topic, len(rows)) for topic, rows in group.topics] == [("t", MANY)]


@pytest.mark.parametrize("version", [8, 10])
def test_a_fetch_in_slices_answers_as_one_in_one_piece(cluster: Cluster, version: int) -> None:
    """Topics are asked for by name or id, and partitions and groups are answered in the order asked for."""
    cluster.send_commit("small", 7)
    cluster.flush_and_commit()
    names = ("", "") if version == 10 else ("t", "u")
    image = state_of(cluster).image
    ids = tuple(image.topics[name].topic_id for name in ("t", "u")) if version == 10 else None
    asked = tuple(reversed(range(MANY + 10)))

    def group_of(count: int) -> m.OffsetFetchGroup:
        return m.OffsetFetchGroup("big", ((names[0], asked[:count]), (names[1], (1,))), topic_ids=ids)

    small = m.OffsetFetchGroup("small", (("t", (0, 0)),)) if ids is None else group_of(1)
    token = cluster.send(api_keys.OFFSET_FETCH, m.OffsetFetchRequest((group_of(MANY + 10), small)), version)
    cluster.end_long_works()
    pieces = []
    for begin in range(0, MANY + 10, 1_000):
        part = group_of(0)._replace(topics=((names[0], asked[begin : begin + 1_000]), (names[1], (1,))))
        piece = cluster.send(api_keys.OFFSET_FETCH, m.OffsetFetchRequest((part,)), version)
        (answered,) = cluster.answers[piece].groups
        pieces += list(answered.topics[0][1])
    group, other = cluster.answers[token].groups
    assert (group.group_id, group.error_code, group.topic_ids) == ("big", NO_ERROR, ids)
    assert list(group.topics[0][1]) == pieces
    assert [tuple(row)[:2] for row in group.topics[1][1]] == [(1, -1)]
    assert other.group_id == small.group_id


def test_a_leader_that_falls_refuses_what_it_has_not_answered(cluster: Cluster) -> None:
    token = fetch_all(cluster, "big")
    a_slice(cluster)
    cluster.elect(1)
    assert cluster.answers[token].groups[0].error_code == NOT_COORDINATOR
    assert state_of(cluster, 0).readings == []
    assert cluster.replicas[0].owed == 0


def test_no_more_long_answers_are_begun_than_there_is_room_for(cluster: Cluster) -> None:
    tokens = [fetch_all(cluster, "big") for _ in range(LONG_WORKS_MAX + 1)]
    assert cluster.answers[tokens.pop()].groups[0].error_code == NOT_AVAILABLE
    cluster.end_long_works()
    assert {cluster.answers[token].groups[0].error_code for token in tokens} == {NO_ERROR}


# Deletions in slices.


def test_a_deleted_group_is_not_there_while_its_offsets_go(cluster: Cluster) -> None:
    begin_deletion(cluster)
    listed = cluster.answers[cluster.send(api_keys.LIST_GROUPS, m.ListGroupsRequest(), 5)]
    described = cluster.answers[cluster.send(api_keys.DESCRIBE_GROUPS, m.DescribeGroupsRequest(("big",)), 6)]
    deleted = cluster.answers[delete(cluster, "big")]
    assert listed.groups == ()
    assert described.groups[0].error_code == NOT_FOUND
    assert deleted.results == (("big", NOT_FOUND),)
    assert cluster.commit_error(cluster.send_commit("big", 3)) == LOADING
    fetched = cluster.answers[cluster.send_fetch("big")]
    assert fetched.groups[0].error_code == LOADING
    end_deletion(cluster)
    assert "big" not in state_of(cluster).offsets
    assert not state_of(cluster).dying
    token = cluster.send_commit("big", 3)
    cluster.flush_and_commit()
    assert cluster.commit_error(token) == NO_ERROR
    cluster.check_equal()


def test_a_new_leader_ends_the_deletion(cluster: Cluster) -> None:
    begin_deletion(cluster)
    cluster.elect(1)
    assert cluster.commit_error(cluster.send_commit("big", 3)) == LOADING
    end_deletion(cluster)
    assert not any(state_of(cluster, node).offsets or state_of(cluster, node).dying for node in range(3))


def test_a_deletion_that_was_not_committed_never_was(cluster: Cluster) -> None:
    token = delete(cluster, "big")
    cluster.leader.flush()
    cluster.elect(1, surviving=0)
    assert cluster.answers[token].results == (("big", NOT_COORDINATOR),)
    assert len(state_of(cluster).offsets["big"]) == MANY
    assert not state_of(cluster).dying


def test_a_snapshot_of_a_dying_group_has_it_go_on(cluster: Cluster) -> None:
    begin_deletion(cluster)
    records = {key[0]: value for key, value in cluster.leader.shard.records()}
    assert DYING_GROUP in records
    cluster.check_equal()


# Lists and descriptions in slices.


def test_a_list_of_many_groups_lacks_none(cluster: Cluster) -> None:
    expected = {"big"}
    for number in range(AT_ONCE_MAX + 1):
        cluster.send_commit(f"g{number}", 1)
        expected.add(f"g{number}")
    cluster.flush_and_commit()
    cluster.end_long_works()
    token = cluster.send(api_keys.LIST_GROUPS, m.ListGroupsRequest(), 5)
    a_slice(cluster)
    deleted = delete(cluster, f"g{AT_ONCE_MAX}")
    cluster.flush_and_commit()
    assert deleted in cluster.answers
    cluster.end_long_works()
    listed = [group.group_id for group in cluster.answers[token].groups]
    assert len(listed) == len(set(listed))
    assert set(listed) == expected - {f"g{AT_ONCE_MAX}"}


# Leadership is taken over in slices.


def classic_group(group_id: str, members: int) -> list[Record]:
    value = ClassicMemberValue(None, "c", "/h", 300_000, 45_000, (("range", b""),), b"")
    records = [
        Record(ClassicMemberKey(CLASSIC_MEMBER, group_id, f"{group_id}-{n}"), value) for n in range(members)
    ]
    metadata = GroupMetadataValue("consumer", 3, "range", f"{group_id}-0", 0)
    return [*records, Record(GroupMetadataKey(GROUP_METADATA, group_id), metadata)]


def test_a_new_leader_with_many_members_says_that_it_is_loading_until_it_has_them_all() -> None:
    cluster = Cluster(image_of(1, t=4))
    for replica in cluster.replicas:
        for number in range(3):
            for record in classic_group(f"g{number}", AT_ONCE_MAX):
                replica.shard.apply(*record)
    cluster.elect(0)
    assert not cluster.leader.serving
    early = cluster.send_commit("new", 1)
    beat = cluster.send(api_keys.HEARTBEAT, m.HeartbeatRequest("g2", 3, "g2-1"), 4)
    assert cluster.commit_error(early) == LOADING
    assert cluster.answers[beat].error_code == NO_ERROR, "W4"
    a_slice(cluster)
    assert not cluster.leader.serving
    cluster.end_long_works()
    assert cluster.leader.serving
    assert len(classic_groups(state_of(cluster))) == 3
    beat = cluster.send(api_keys.HEARTBEAT, m.HeartbeatRequest("g2", 3, "g2-1"), 4)
    assert cluster.answers[beat].error_code == NO_ERROR


def test_a_leader_that_falls_while_it_takes_over_never_served() -> None:
    cluster = Cluster(image_of(1, t=4))
    for replica in cluster.replicas:
        for record in classic_group("g", AT_ONCE_MAX + 1):
            replica.shard.apply(*record)
    cluster.elect(0)
    cluster.elect(1)
    assert not cluster.replicas[0].serving
    assert cluster.replicas[0].next_deadline_ms is None
    assert not classic_groups(state_of(cluster, 0))
    cluster.end_long_works()
    assert cluster.leader.serving
