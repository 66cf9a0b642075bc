"""Classic groups as the rest of the coordinator sees them: describe, list, delete, commit, expire."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.group import EMPTY, STABLE, ClassicGroup
from actors.coordinator.classic.protocols import CONSUMER_PROTOCOL_TYPE
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.kind import Retention, kind_of
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CLASSIC
from actors.ground.contract import Record, Reply, Request, Result
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    DescribedClassicGroup,
    DescribedClassicMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
)
from actors.protocol.transaction_messages import TxnOffsetCommitRequest

GROUP_ID_NOT_FOUND_VERSION = 6
"""The first DescribeGroups version that says GROUP_ID_NOT_FOUND; older ones show such a group as Dead."""


# DescribeGroups.


def describe_groups(state: ShardState, request: Request, now_ms: int) -> Result:
    """DescribeGroups: the classic view of groups, each with its own error."""
    body: DescribeGroupsRequest = request.body
    described = tuple(_described(state, group_id, request.api_version) for group_id in body.groups)
    only = body.groups[0] if len(body.groups) == 1 else None
    return Result((), (Reply(request.token, DescribeGroupsResponse(described), only),))


def _described(state: ShardState, group_id: str, api_version: int) -> DescribedClassicGroup:
    if group_id in classic_groups(state):
        return describe(state, group_id)
    kind = kind_of(state, group_id)
    if kind is not None and kind.described is not None:
        return kind.described(state, group_id)
    if simple_groups.exists(state, group_id):
        return DescribedClassicGroup(NO_ERROR, group_id, EMPTY.value)
    if api_version < GROUP_ID_NOT_FOUND_VERSION:
        return DescribedClassicGroup(NO_ERROR, group_id, "Dead")
    is_other = simple_groups.is_managed(state, group_id)
    reason = f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found."
    return DescribedClassicGroup(ErrorCode.group_id_not_found, group_id, "Dead", error_message=reason)


def describe(state: ShardState, group_id: str) -> DescribedClassicGroup:
    """Describe a live classic group (C25). Raises GROUP_ID_NOT_FOUND."""
    group = _live(state, group_id)
    stable = group.state is STABLE
    return DescribedClassicGroup(
        NO_ERROR,
        group_id,
        group.state.value,
        group.protocol_type or "",
        (group.protocol_name or "") if stable else "",
        tuple(
            DescribedClassicMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                # In a rebalance members may be about to agree on another protocol; what they last had
                # assigned they still own (C25).
                member.metadata(group.protocol_name) if stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )


# ListGroups, DeleteGroups, `groupd status`.


def listed(state: ShardState, group_id: str) -> ListedGroup:
    """The group's row of ListGroups. Raises GROUP_ID_NOT_FOUND."""
    group = _live(state, group_id)
    return ListedGroup(group_id, group.protocol_type or "", group.state.value, CLASSIC)


def summary(state: ShardState, group_id: str) -> dict[str, Any]:
    """What no Kafka API tells of the group: its generation, and whether the group waits for more joins and
    leaves before it rebalances (`batching`)."""
    group = _live(state, group_id)
    return {
        "state": group.state.value,
        "members": len(group.members),
        "generation": group.generation,
        "waiting_joins_and_leaves": group.changes,
        "rebalance_due_ms": state.timers.deadline_ms(group.join_key) if group.changes else None,
    }


def is_empty(state: ShardState, group_id: str) -> bool:
    """Whether the group has no members. Raises GROUP_ID_NOT_FOUND."""
    return _live(state, group_id).state is EMPTY


def is_unused(state: ShardState, group_id: str) -> bool:
    """Whether the group has no members, and no member id that somebody may yet join with."""
    group = _live(state, group_id)
    return group.state is EMPTY and not group.pending_joins


def delete_records(state: ShardState, group_id: str) -> list[Record]:
    """The tombstones of the group's own records, not of its offsets; `forget` is to follow.

    Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
    """
    if not is_empty(state, group_id):
        raise GroupError(ErrorCode.non_empty_group)
    return classic_store.tombstones(state, group_id)


# Offsets.


def subscribed_topics(state: ShardState, group_id: str) -> Collection[str] | None:
    """The topics that members of a "consumer" group subscribed to, as of the last completed join phase; None
    if they are unknown, which is to be taken for all topics (O12). Raises GROUP_ID_NOT_FOUND, and
    NON_EMPTY_GROUP if the members' protocol says nothing of topics."""
    group = _live(state, group_id)
    if group.state is EMPTY:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise GroupError(ErrorCode.non_empty_group)
    return group.subscribed_topics


def retention(state: ShardState, group_id: str) -> Retention | None:
    """O14: offsets of an Empty group are kept from when it became so; those of a Stable "consumer" group from
    each commit, unless the topic is subscribed to; no others expire."""
    group = _live(state, group_id)
    if group.protocol_type is None:
        return Retention(None, ())
    if group.state is EMPTY:
        return Retention(group.current_state_timestamp_ms, ())
    is_known = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
    if group.state is STABLE and is_known:
        return Retention(None, group.subscribed_topics or ())
    return None


def validate_fetch(state: ShardState, group_id: str, member_id: str | None, member_epoch: int) -> None:
    """O11: on a classic group nobody looks at the member id or the epoch."""


def validate_txn_commit(state: ShardState, request: Request, now_ms: int) -> None:
    """Whether the group takes the TxnOffsetCommit (O7): who names no member is not asked who it is, and the
    group's state does not matter. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    body: TxnOffsetCommitRequest = request.body
    group = _live(state, body.group_id)
    names_nobody = body.member_id == "" and body.group_instance_id is None
    if body.generation_id < 0 and (names_nobody or group.state is EMPTY):
        return
    group.find(body.member_id, body.group_instance_id)
    if body.generation_id != group.generation:
        raise GroupError(ErrorCode.illegal_generation)


def _live(state: ShardState, group_id: str) -> ClassicGroup:
    group = classic_groups(state).get(group_id)
    if group is None:
        raise GroupError(ErrorCode.group_id_not_found)
    return group
