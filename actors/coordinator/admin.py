"""What administrators ask of groups: DescribeGroups, ListGroups, DeleteGroups, ConsumerGroupDescribe.

Each is a batch: every group has its own error. The groups themselves are described where they live, in
`classic` and `consumer`; a simple group (O1), which is only its offsets, is described here. Requests that
span partitions are split and merged by `actors.api.groups` (W17).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from itertools import chain

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import area as classic
from actors.coordinator.consumer import area as consumer
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import begun, sliced
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import simple as simple_groups
from actors.coordinator.offsets.delete import delete_all
from actors.coordinator.told.events import GroupDeleted
from actors.ground.contract import NOTHING, Record, Reply, Request, Result
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedClassicGroup,
    DescribedConsumerGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

GROUP_ID_NOT_FOUND_VERSION = 6
"""The first DescribeGroups version that says GROUP_ID_NOT_FOUND; older ones show such a group as Dead."""


def _only(groups: tuple[str, ...]) -> str | None:
    """The one group that an answer speaks of, if it is one (see `Reply.group_id`)."""
    return groups[0] if len(groups) == 1 else None


# DescribeGroups.


def describe_groups(state: ShardState, request: Request, now_ms: int) -> Result:
    """DescribeGroups: the classic view."""
    body: DescribeGroupsRequest = request.body
    described = tuple(_described_classic(state, group_id, request.api_version) for group_id in body.groups)
    return Result((), (Reply(request.token, DescribeGroupsResponse(described), _only(body.groups)),))


def _described_classic(state: ShardState, group_id: str, api_version: int) -> DescribedClassicGroup:
    if group_id in state.consumer:
        reason = f"Group {group_id} is not a classic group."
    elif group_id in state.classic:
        return classic.describe(state, group_id)
    elif simple_groups.exists(state, group_id):
        return DescribedClassicGroup(NO_ERROR, group_id, "Empty")
    else:
        reason = f"Group {group_id} not found."
    if api_version < GROUP_ID_NOT_FOUND_VERSION:
        return DescribedClassicGroup(NO_ERROR, group_id, "Dead")
    return DescribedClassicGroup(ErrorCode.group_id_not_found, group_id, "Dead", error_message=reason)


# ConsumerGroupDescribe.


def consumer_group_describe(state: ShardState, request: Request, now_ms: int) -> Result:
    """ConsumerGroupDescribe. Kafka's Admin falls back to DescribeGroups on GROUP_ID_NOT_FOUND (A12)."""
    body: ConsumerGroupDescribeRequest = request.body
    members = sum(state.consumer[each].size for each in body.group_ids if each in state.consumer)
    return begun(_described_consumers(state, request), members)


def _described_consumers(state: ShardState, request: Request) -> Iterator[Result]:
    """Each group as it is when its turn comes."""
    body: ConsumerGroupDescribeRequest = request.body
    described = []
    for group_id in body.group_ids:
        described.append((yield from _described_consumer(state, group_id)))
    answer = ConsumerGroupDescribeResponse(tuple(described))
    yield Result((), (Reply(request.token, answer, _only(body.group_ids)),))


def _described_consumer(state: ShardState, group_id: str) -> Generator[Result, None, DescribedConsumerGroup]:
    if not group_id:
        return DescribedConsumerGroup(ErrorCode.invalid_group_id, group_id)
    if group_id in state.consumer:
        return (yield from consumer.described(state, group_id))
    exists = group_id in state.classic or simple_groups.exists(state, group_id)
    reason = f"Group {group_id} is not a consumer group." if exists else f"Group {group_id} not found."
    return DescribedConsumerGroup(ErrorCode.group_id_not_found, group_id, reason)


# ListGroups.


def list_groups(state: ShardState, request: Request, now_ms: int) -> Result:
    """ListGroups. Filters ignore case; a word that names no state or type matches nothing (W9)."""
    return begun(_listed(state, request), len(state.classic) + len(state.consumer) + len(state.offsets))


def _listed(state: ShardState, request: Request) -> Iterator[Result]:
    """The groups that are there as it begins, each as it is when its turn comes."""
    body: ListGroupsRequest = request.body
    states = _folded(body.states_filter)
    types = _folded(body.types_filter)
    groups: list[ListedGroup] = []
    every_id = chain(state.classic, state.consumer, *simple_groups.places(state))
    for group_ids in sliced(dict.fromkeys(every_id)):
        groups += (
            group
            for group in map(partial(_listed_group, state), group_ids)
            if group is not None
            and (not states or group.group_state.lower() in states)
            and (not types or group.group_type.lower() in types)
        )
        yield NOTHING
    yield Result((), (Reply(request.token, ListGroupsResponse(NO_ERROR, tuple(groups))),))


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower() for word in words)


def _listed_group(state: ShardState, group_id: str) -> ListedGroup | None:
    """None if it has gone."""
    if group_id in state.classic:
        return classic.listed(state.classic[group_id])
    if group_id in state.consumer:
        return consumer.listed(state.consumer[group_id])
    if simple_groups.exists(state, group_id):
        return ListedGroup(group_id, "", "Empty", "classic")
    return None


# DeleteGroups.


def delete_groups(state: ShardState, request: Request, now_ms: int) -> Result:
    """DeleteGroups: tombstones for offsets and group of each empty group; a group named twice has one result.

    Every deleted group's volatile half is dropped here, with the decision.
    """
    body: DeleteGroupsRequest = request.body
    groups = tuple(dict.fromkeys(body.groups_names))
    records: list[Record] = []
    events = []
    results = []
    for group_id in groups:
        try:
            records += delete_group(state, group_id, now_ms)
            events.append(GroupDeleted(now_ms, group_id, "deleted on request", "O13"))
            results.append((group_id, NO_ERROR))
        except GroupError as error:
            results.append((group_id, error.error_code))
    answer = Reply(request.token, DeleteGroupsResponse(tuple(results)), _only(groups))
    return Result(records, (answer,), events)


def delete_group(state: ShardState, group_id: str, now_ms: int) -> list[Record]:
    """Tombstones for all of a group, or the record that has its many offsets go by and by; its volatile half
    is gone already. Raises GroupError if it is not there or not empty (O13)."""
    group_records: list[Record] = []
    if group_id in state.consumer:
        group_records = consumer.delete_records(state, group_id)
        consumer.forget(state, group_id)
    elif group_id in state.classic:
        group_records = classic.delete_records(state, group_id)
        classic.forget(state, group_id)
    elif not simple_groups.exists(state, group_id):
        raise GroupError(ErrorCode.group_id_not_found)
    state.simple_groups.pop(group_id, None)
    return delete_all(state, group_id, now_ms) + group_records


AREA = Area(
    handlers={
        api_keys.DESCRIBE_GROUPS: describe_groups,
        api_keys.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
        api_keys.LIST_GROUPS: list_groups,
        api_keys.DELETE_GROUPS: delete_groups,
    },
)
