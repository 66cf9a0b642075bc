"""Requests that span offsets partitions are split, refused in part, and merged (W9, W17)."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.api.groups import merge, refused_part, split
from actors.protocol import api_keys
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    FetchedGroup,
    FetchedOffset,
    HeartbeatRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

PARTITIONS = 4


def partition_of(group_id: str) -> int:
    return int(group_id[1:]) % PARTITIONS


def test_each_partition_gets_its_own_groups() -> None:
    body = DescribeGroupsRequest(("g5", "g2", "g1"), include_authorized_operations=True)
    assert split(api_keys.DESCRIBE_GROUPS, body, partition_of, PARTITIONS) == {
        1: DescribeGroupsRequest(("g5", "g1"), True),
        2: DescribeGroupsRequest(("g2",), True),
    }


def test_a_request_of_one_group_goes_to_its_partition_as_it_is() -> None:
    body = HeartbeatRequest("g6", 1, "m")
    assert split(api_keys.HEARTBEAT, body, partition_of, PARTITIONS) == {2: body}
    answer = object()
    assert merge(api_keys.HEARTBEAT, [answer], body) is answer


def test_list_groups_goes_to_all_partitions_and_skips_those_led_elsewhere() -> None:
    """This is rule W9."""
    body = ListGroupsRequest(("Stable",))
    parts = split(api_keys.LIST_GROUPS, body, partition_of, PARTITIONS)
    assert parts == dict.fromkeys(range(PARTITIONS), body)
    here = ListedGroup("g1", "consumer", "Stable", "Classic")
    answers = [ListGroupsResponse(NO_ERROR, (here,)), refused_part(api_keys.LIST_GROUPS, body, 16)]
    assert merge(api_keys.LIST_GROUPS, answers, body) == ListGroupsResponse(NO_ERROR, (here,))


def test_list_groups_fails_as_a_whole_on_any_other_error() -> None:
    """W9: half a list would look like a whole one."""
    here = ListedGroup("g1", "consumer", "Stable", "Classic")
    loading = refused_part(api_keys.LIST_GROUPS, ListGroupsRequest(), 14)
    merged = merge(
        api_keys.LIST_GROUPS,
        [ListGroupsResponse(NO_ERROR, (here,)), loading],
        ListGroupsRequest(),
    )
    assert merged == ListGroupsResponse(ErrorCode.coordinator_load_in_progress)


@pytest.mark.parametrize(
    ("api_key", "body"),
    [
        (api_keys.DESCRIBE_GROUPS, DescribeGroupsRequest(("g3", "g1", "g2", "g5"))),
        (api_keys.DELETE_GROUPS, DeleteGroupsRequest(("g3", "g1", "g2", "g5"))),
        (api_keys.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(("g3", "g1", "g2", "g5"))),
        (
            api_keys.OFFSET_FETCH,
            OffsetFetchRequest(tuple(OffsetFetchGroup(g, None) for g in ("g3", "g1", "g2", "g5"))),
        ),
    ],
)
def test_groups_led_elsewhere_are_refused_each_and_the_order_is_the_requests(api_key: int, body: Any) -> None:
    """This is rule W17."""
    parts = split(api_key, body, partition_of, PARTITIONS)
    codes = [16 if partition == 1 else 14 for partition in parts]
    answers = [refused_part(api_key, part, code) for part, code in zip(parts.values(), codes, strict=True)]
    merged = merge(api_key, answers, body)
    assert outcomes(merged) == [("g3", 14), ("g1", 16), ("g2", 14), ("g5", 16)]


def outcomes(answer: Any) -> list[tuple[str, int]]:
    if isinstance(answer, DeleteGroupsResponse):
        return [(group_id, int(error)) for group_id, error in answer.results]
    return [(group.group_id, int(group.error_code)) for group in answer.groups]


def test_answers_of_different_partitions_are_put_together() -> None:
    body = OffsetFetchRequest(tuple(OffsetFetchGroup(g, (("t", (0,)),)) for g in ("g2", "g1", "g2")))
    [two, one] = (
        FetchedGroup(group_id, (("t", (FetchedOffset(0, offset),)),))
        for group_id, offset in (("g2", 20), ("g1", 10))
    )
    merged = merge(
        api_keys.OFFSET_FETCH, [OffsetFetchResponse((two, two)), OffsetFetchResponse((one,))], body
    )
    assert merged == OffsetFetchResponse((two, one, two))


def test_a_group_deleted_twice_has_one_result() -> None:
    """This is rule O13."""
    body = DeleteGroupsRequest(("g1", "g2", "g1"))
    parts = split(api_keys.DELETE_GROUPS, body, partition_of, PARTITIONS)
    answers = [refused_part(api_keys.DELETE_GROUPS, part, 0) for part in parts.values()]
    merged = merge(api_keys.DELETE_GROUPS, answers, body)
    assert [group_id for group_id, _ in merged.results] == ["g1", "g2"]


def test_an_empty_batch_is_an_empty_answer() -> None:
    body = DescribeGroupsRequest(())
    assert split(api_keys.DESCRIBE_GROUPS, body, partition_of, PARTITIONS) == {}
    assert merge(api_keys.DESCRIBE_GROUPS, [], body).groups == ()


def test_a_refused_fetch_of_version_1_names_its_partitions() -> None:
    """This is rule W6."""
    body = OffsetFetchRequest((OffsetFetchGroup("g1", (("t", (0, 1)),)),))
    [group] = refused_part(api_keys.OFFSET_FETCH, body, 16, api_version=1).groups
    assert [p.error_code for _, partitions in group.topics for p in partitions] == [16, 16]
