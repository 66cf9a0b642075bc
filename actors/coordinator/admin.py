"""What administrators ask of groups of every kind: ListGroups, DeleteGroups.

Each is a batch: every group has its own error. Requests that describe groups are answered by the kind whose
request it is. Requests that span partitions are split and merged by `actors.api.groups` (W17).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.kind import kind_of
from actors.coordinator.ground.slices import begun, sliced
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets.delete import delete_group
from actors.coordinator.told.events import GroupDeleted
from actors.ground.contract import NOTHING, Record, Reply, Request, Result
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

# ListGroups.


def list_groups(state: ShardState, request: Request, now_ms: int) -> Result:
    """ListGroups. Filters ignore case; a word that names no state or type matches nothing (W9)."""
    groups = sum(len(groups) for groups, _ in state.groups_by_kind)
    return begun(_listed(state, request), groups + len(state.offsets))


def _listed(state: ShardState, request: Request) -> Iterator[Result]:
    """List the groups that are there as the work begins, each as it is when the work comes to it."""
    body: ListGroupsRequest = request.body
    states = _folded(body.states_filter)
    types = _folded(body.types_filter)
    groups: list[ListedGroup] = []
    every_id = chain(*(groups for groups, _ in state.groups_by_kind), *simple_groups.places(state))
    for group_ids in sliced(dict.fromkeys(every_id)):
        groups += (
            group
            for group in map(partial(_listed_group, state), group_ids)
            if group is not None
            and (not states or group.group_state.lower() in states)
            and (not types or group.group_type.lower() in types or _is_listed_as(state, group, types))
        )
        yield NOTHING
    yield Result((), (Reply(request.token, ListGroupsResponse(NO_ERROR, tuple(groups))),))


def _folded(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower() for word in words)


def _listed_group(state: ShardState, group_id: str) -> ListedGroup | None:
    """The group's row; None if it has gone."""
    if state.is_away(group_id):
        return None
    kind = kind_of(state, group_id)
    if kind is not None:
        return kind.listed(state, group_id)
    if simple_groups.exists(state, group_id):
        return ListedGroup(group_id, "", "Empty", simple_groups.SHOWN_AS)
    return None


def _is_listed_as(state: ShardState, group: ListedGroup, types: frozenset[str]) -> bool:
    """Whether the group is to be found by the name of a type that can show it, as the one it has."""
    kind = kind_of(state, group.group_id)
    return kind is not None and not types.isdisjoint(kind.listed_as)


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
    only = groups[0] if len(groups) == 1 else None
    return Result(records, (Reply(request.token, DeleteGroupsResponse(tuple(results)), only),), events)


AREA = Area(handlers={api_keys.LIST_GROUPS: list_groups, api_keys.DELETE_GROUPS: delete_groups})
