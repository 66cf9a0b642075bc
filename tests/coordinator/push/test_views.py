"""Push groups as tools see them: lists, descriptions, offsets, deletion, backups (D13)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.push import group as group_module
from actors.coordinator.push.group import PushState
from actors.coordinator.push.kind import AREA, KIND, TIMERS
from actors.coordinator.restore import RESTORE, RestoreRequest, emptied
from actors.ground.contract import Request
from actors.ground.records import PUSH_GROUP
from actors.metrics.groups import group_rows
from actors.protocol import api_keys
from actors.protocol.consumer_protocol import read_assignment, read_subscription
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    CommittedPartition,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)
from actors.protocol.transaction_messages import TxnOffsetCommitRequest
from tests.coordinator.push.pushing import GROUP, SESSION_MS, Pushing

MINUTE_MS = 60_000


@pytest.fixture
def group() -> Pushing:
    return Pushing()


def commit(group: Pushing, consumer_id: str, generation: int, offset: int = 7) -> int:
    topics = (("t", (CommittedPartition(0, offset),)),)
    body = OffsetCommitRequest(GROUP, generation, consumer_id, None, -1, topics)
    [(_, [(_, error)])] = group.ask(api_keys.OFFSET_COMMIT, body, 9).topics
    return int(error)


def listed(group: Pushing, *types: str) -> list[tuple[str, str, str, str]]:
    return [tuple(each) for each in group.ask(api_keys.LIST_GROUPS, ListGroupsRequest((), types), 5).groups]


@pytest.mark.parametrize("types", [(), ("push",), ("classic",), ("consumer", "CLASSIC")])
def test_the_group_is_listed_for_those_who_can_show_it(group: Pushing, types: tuple[str, ...]) -> None:
    group.register("a")
    assert listed(group, *types) == [(GROUP, "consumer", "Stable", "push")]
    assert listed(group, "share") == []


def test_the_group_is_described_as_a_classic_one(group: Pushing) -> None:
    group.register("a")
    group.register("b")
    [found] = group.ask(api_keys.DESCRIBE_GROUPS, DescribeGroupsRequest((GROUP,)), 6).groups
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
    first, second = found.members
    assert (first.member_id, first.client_id, first.client_host) == ("a", "client", "/127.0.0.1")
    assert read_subscription(first.member_metadata).topics == ("t",)
    assert read_assignment(first.member_assignment).partitions == (("t", (0, 1)),)
    assert read_assignment(second.member_assignment).partitions == (("t", (2, 3)),)


def test_a_consumer_commits_in_the_generation_it_was_started_in(group: Pushing) -> None:
    """D13: commitOffset() is OffsetCommit, with the consumer's id and generation."""
    member = group.register("a", auto_commit=False)
    assert commit(group, "a", member.generation_id) == 0
    assert commit(group, "a", member.generation_id - 1) == ErrorCode.illegal_generation
    assert commit(group, "b", member.generation_id) == ErrorCode.unknown_member_id
    assert commit(group, "", -1) == ErrorCode.unknown_member_id
    group.register("b")
    assert commit(group, "a", 1) == ErrorCode.illegal_generation
    assert group.committed() == {("t", 0): 7}


def test_offsets_are_reset_while_the_group_is_empty(group: Pushing) -> None:
    member = group.register("a")
    group.read("a", 1)
    member.close()
    group.advance(SESSION_MS // 3)
    assert commit(group, "", -1, offset=50) == 0
    group.members.clear()
    assert group.register("a").positions[("t", 0)] == 50


def test_a_transaction_may_commit_for_a_consumer(group: Pushing) -> None:
    group.register("a")
    topics = (("t", (CommittedPartition(0, 7),)),)
    for consumer_id, generation, error in (("a", 1, None), ("a", 9, 22), ("x", 1, 25), ("", -1, None)):
        body = TxnOffsetCommitRequest("tx", GROUP, 1, 0, topics, generation, consumer_id)
        request = Request(1, api_keys.TXN_OFFSET_COMMIT, 3, "c", "/h", body)
        if error is None:
            KIND.validate_txn_commit(group.shard.state, request, group.now_ms)
        else:
            with pytest.raises(GroupError) as refusal:
                KIND.validate_txn_commit(group.shard.state, request, group.now_ms)
            assert refusal.value.error_code == error


def test_offsets_in_use_are_not_deleted(group: Pushing) -> None:
    group.register("a")
    body = OffsetDeleteRequest(GROUP, (("t", (0,)),))
    [(_, [(_, error)])] = group.ask(api_keys.OFFSET_DELETE, body).topics
    assert error == ErrorCode.group_subscribed_to_topic


def test_an_empty_group_is_deleted_with_all_it_had(group: Pushing) -> None:
    group.register("a")
    asked = DeleteGroupsRequest((GROUP,))
    assert group.ask(api_keys.DELETE_GROUPS, asked, 2).results == ((GROUP, ErrorCode.non_empty_group),)
    group.is_deaf.add("a")
    group.disconnect("a")
    group.advance(2 * SESSION_MS)
    assert group.ask(api_keys.DELETE_GROUPS, asked, 2).results == ((GROUP, ErrorCode.none),)
    assert not list(group.shard.records())


def test_an_empty_group_goes_with_its_last_offset(group: Pushing) -> None:
    """D13: the registries of groups that nobody uses do not stay."""
    group.register("a")
    group.read("a", 5)
    group.advance(SESSION_MS // 3)
    group.is_deaf.add("a")
    group.disconnect("a")
    group.advance(2 * group.settings.offsets_retention_minutes * MINUTE_MS)
    assert not list(group.shard.records())


def test_metrics_count_the_states(group: Pushing) -> None:
    group.register("a")
    counting = group_rows(group.shard)
    with pytest.raises(StopIteration) as done:
        next(counting)
    rows = {(name, labels): value for name, labels, value in done.value.value}
    assert rows["push_group_count", ("Stable",)] == rows["group_member_count", ("push",)] == 1


def test_a_backup_brings_the_group_back_empty(group: Pushing) -> None:
    group.register("a")
    records = [emptied(key, value, group.now_ms) for key, value in group.shard.records() if value is not None]
    restored = tuple(each for each in records if each is not None)
    assert [key[0] for key, _ in restored] == [PUSH_GROUP]
    after = Pushing()
    assert after.ask(RESTORE, RestoreRequest(restored)).error_code == 0
    assert listed(after) == [(GROUP, "consumer", "Empty", "push")]
    assert after.register("a").generation_id == 2


def test_who_reads_can_be_explained(group: Pushing) -> None:
    group.register("a")
    assert group.says() == "every partition is read by the consumer that owns it"
    group.is_deaf.add("a")
    group.register("b")
    assert "stop their fetchers" in group.says()


def test_what_is_named_before_it_is_loaded_is_there() -> None:
    """The kind names its modules' functions, states and timers without loading them."""
    assert KIND.states == tuple(state.value for state in PushState)
    timers = {group_module.PING_TIMER, group_module.WATCH_TIMER, group_module.FAIL_TIMER}
    assert set(TIMERS) == timers
    assert set(AREA.timers) == timers | {group_module.REBALANCE_TIMER}
