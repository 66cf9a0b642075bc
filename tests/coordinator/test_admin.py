"""Groups of every type are described, listed and deleted."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.protocol import api_keys
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupDescribeRequest,
    DescribedClassicGroup,
    DescribedConsumerGroup,
    DescribeGroupsRequest,
    ListedGroup,
)
from tests.coordinator.driver import Driver


@pytest.fixture
def tier() -> Driver:
    return Driver(t=3)


def consumer_view(tier: Driver, group_id: str) -> DescribedConsumerGroup:
    body = ConsumerGroupDescribeRequest((group_id,))
    [group] = tier.ask(api_keys.CONSUMER_GROUP_DESCRIBE, body, 1).groups
    assert isinstance(group, DescribedConsumerGroup)
    return group


def test_an_unknown_group_is_69_and_for_old_clients_dead(tier: Driver) -> None:
    """DescribeGroups answers GROUP_ID_NOT_FOUND with a message in version 6, and before it the state "Dead"
    without an error."""
    found = tier.describe("g", version=6)
    assert (found.error_code, found.group_state, found.error_message) == (69, "Dead", "Group g not found.")
    assert tier.describe("g", version=5) == DescribedClassicGroup(NO_ERROR, "g", "Dead")
    assert tier.describe("", version=6).error_code == 69


def test_a_simple_group_is_described_and_listed_as_an_empty_classic_group(tier: Driver) -> None:
    """These are rules O1 and W2."""
    for group_id in ("g", ""):
        tier.commit_offsets(group_id)
        assert tier.describe(group_id) == DescribedClassicGroup(NO_ERROR, group_id, "Empty")
    assert tier.list_groups() == [
        ListedGroup("", "", "Empty", "classic"),
        ListedGroup("g", "", "Empty", "classic"),
    ]


def test_consumer_group_describe_points_classic_groups_elsewhere(tier: Driver) -> None:
    """A12: error 69 with a message makes Kafka's Admin fall back to DescribeGroups. W2: the group id "" gets
    error 24."""
    tier.commit_offsets("simple")
    tier.stable_group("classic")
    for group_id in ("simple", "classic"):
        found = consumer_view(tier, group_id)
        assert (found.error_code, found.error_message) == (69, f"Group {group_id} is not a consumer group.")
    assert consumer_view(tier, "none") == DescribedConsumerGroup(
        ErrorCode.group_id_not_found,
        "none",
        "Group none not found.",
    )
    assert consumer_view(tier, "").error_code == 24


def test_a_live_classic_group_is_described_stable_with_its_members(tier: Driver) -> None:
    """This is rule C25."""
    joined = tier.stable_group("g", size=2)
    group = tier.describe("g")
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Stable", "consumer")
    assert group.protocol_data == "range"
    assert {member.member_id for member in group.members} == {answer.member_id for answer in joined}
    assert all(m.member_assignment == m.member_id.encode() for m in group.members)
    assert {m.client_host for m in group.members} == {"/127.0.0.1"}


def test_one_answer_for_each_group_asked_in_order(tier: Driver) -> None:
    tier.commit_offsets("a")
    body = DescribeGroupsRequest(("b", "a", "b"))
    groups = tier.ask(api_keys.DESCRIBE_GROUPS, body, 5).groups
    assert [(g.group_id, g.group_state) for g in groups] == [("b", "Dead"), ("a", "Empty"), ("b", "Dead")]
    assert tier.last.replies[0].group_id is None


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), ["classic", "simple"]),
        (("STABLE",), (), ["classic"]),
        (("empty", "stable"), (), ["classic", "simple"]),
        (("Empty",), ("CLASSIC",), ["simple"]),
        ((), ("consumer",), []),
        (("Sleeping",), (), []),
        ((), ("nonsense",), []),
        (("Stable", "Sleeping"), (), ["classic"]),
    ],
)
def test_list_filters(
    tier: Driver, states: tuple[str, ...], types: tuple[str, ...], found: list[str]
) -> None:
    """W9: filters ignore case, and an unknown word gets an empty answer without an error."""
    tier.commit_offsets("simple")
    tier.stable_group("classic")
    assert [group.group_id for group in tier.list_groups(states, types)] == found


def test_delete_groups_removes_offsets_and_group(tier: Driver) -> None:
    """O13: a missing group gets error 69, one with members 68. A group of offsets needs no members, and what
    is deleted is gone after a failover."""
    tier.commit_offsets("simple", offsets={0: 1, 1: 2})
    [joined] = tier.stable_group("left")
    tier.commit_offsets("left", generation=1, member_id=joined.member_id)
    tier.leave("left", joined.member_id)
    tier.stable_group("live")
    assert tier.delete_groups("simple", "none", "live", "left") == {
        "simple": 0,
        "none": 69,
        "live": 68,
        "left": 0,
    }
    assert [group.group_id for group in tier.list_groups()] == ["live"]
    assert {key[1] for key in tier.records()} == {"live"}
    tier.commit()
    tier.fail_over()
    assert [group.group_id for group in tier.list_groups()] == ["live"]
    assert tier.offsets("left") == {}


def test_a_group_named_twice_is_deleted_once(tier: Driver) -> None:
    """O13: the same group twice in one DeleteGroups gives one result."""
    tier.commit_offsets("g")
    assert tier.delete_groups("g", "g") == {"g": 0}
    assert tier.delete_groups("g", "g") == {"g": 69}


def test_a_deletion_that_is_not_committed_is_undone(tier: Driver) -> None:
    """This is rule R4."""
    tier.commit_offsets("g", offsets={0: 5})
    [joined] = tier.stable_group("left")
    tier.leave("left", joined.member_id)
    tier.commit()
    before = tier.records()
    assert tier.delete_groups("g", "left") == {"g": 0, "left": 0}
    tier.fail_over()
    assert tier.records() == before
    assert tier.describe("left").group_state == "Empty"
    assert tier.offsets("g") == {("t", 0): 5}


def test_a_deleted_group_can_be_made_anew(tier: Driver) -> None:
    [joined] = tier.stable_group("g")
    tier.leave("g", joined.member_id)
    tier.delete_groups("g")
    [joined] = tier.stable_group("g")
    assert joined.generation_id == 1
