"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, as the shard and the other areas see them.

Reading order: `classic_group` (the live object, its transition table), `classic_rebalance` (what moves it),
then the requests in `classic_join`, `classic_session` and `classic_leave`; `classic_store` keeps what
survives a failover. A group that has only offsets is none of these and has no live object.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.group import (
    EMPTY,
    JOIN_TIMER,
    SESSION_TIMER,
    STABLE,
    SYNC_TIMER,
    ClassicGroup,
)
from actors.coordinator.classic.join import join_group
from actors.coordinator.classic.leave import leave_group
from actors.coordinator.classic.rebalance import (
    Cause,
    Turn,
    arm_session,
    forget,
    on_join_timer,
    on_session_timer,
    on_sync_timer,
    prepare_rebalance,
)
from actors.coordinator.classic.session import heartbeat, sync_group, validate_commit
from actors.coordinator.consumer.migration.repair import is_consumer_group
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import SLICE_MAX, begun, group_members
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, Result
from actors.ground.records import CLASSIC_MEMBER, GROUP_METADATA
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    DescribedClassicGroup,
    DescribedClassicMember,
    ListedGroup,
)

__all__ = (
    "AREA",
    "ClassicGroup",
    "delete_records",
    "describe",
    "forget",
    "is_empty",
    "listed",
    "subscribed_topics",
    "validate_commit",
)

GROUP_TYPE = "classic"


def describe(state: ShardState, group_id: str) -> DescribedClassicGroup:
    """C25. Raises GROUP_ID_NOT_FOUND."""
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
                # assigned they still own (section 11, C25).
                member.metadata(group.protocol_name) if stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ),
    )


def listed(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, GROUP_TYPE)


def is_empty(state: ShardState, group_id: str) -> bool:
    """Whether the group has no members. Raises GROUP_ID_NOT_FOUND."""
    return _live(state, group_id).state is EMPTY


def delete_records(state: ShardState, group_id: str) -> list[Record]:
    """The tombstones of the group's own records, not of its offsets; `forget` is to follow.

    Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
    """
    if not is_empty(state, group_id):
        raise GroupError(ErrorCode.non_empty_group)
    return classic_store.tombstones(state, group_id)


def subscribed_topics(state: ShardState, group_id: str) -> frozenset[str] | None:
    """The topics that members of a "consumer" group subscribed to, as of the last completed join phase; None
    if they are unknown, which is to be taken for all topics (O12, O14). Raises GROUP_ID_NOT_FOUND."""
    group = _live(state, group_id)
    return frozenset() if group.state is EMPTY else group.subscribed_topics


def _live(state: ShardState, group_id: str) -> ClassicGroup:
    group = state.classic.get(group_id)
    if group is None:
        raise GroupError(ErrorCode.group_id_not_found)
    return group


def _on_elected(state: ShardState, now_ms: int) -> Result:
    """C26: groups come up as last stored, with full sessions. One that is too big now rebalances, and so does
    one that was a consumer group and has not rebalanced since (G7)."""
    return begun(_rebuilt(state, now_ms), group_members(state))


def _rebuilt(state: ShardState, now_ms: int) -> Iterator[Result]:
    turn, done = Turn(state, now_ms), 0
    size_max = state.settings.group_max_size
    for group_id, stored in state.stored_classic.items():
        if is_consumer_group(state, group_id):
            continue
        group = state.classic[group_id] = classic_store.rebuild(group_id, stored, now_ms)
        for member in group.members.values():
            arm_session(turn, member)
        if len(group.members) > size_max:
            prepare_rebalance(turn, group, Cause("the group is larger than it may be"))
        elif group.members and stored.metadata is not None and stored.metadata.leader is None:
            prepare_rebalance(turn, group, Cause("the group became a classic one"))
        done += 1 + len(group.members)
        if done > SLICE_MAX:
            yield turn.result()
            turn, done = Turn(state, now_ms), 0
    yield turn.result()


AREA = Area(
    handlers={
        api_keys.JOIN_GROUP: join_group,
        api_keys.SYNC_GROUP: sync_group,
        api_keys.HEARTBEAT: heartbeat,
        api_keys.LEAVE_GROUP: leave_group,
    },
    appliers={
        GROUP_METADATA: classic_store.apply_metadata,
        CLASSIC_MEMBER: classic_store.apply_member,
    },
    timers={
        SESSION_TIMER: on_session_timer,
        JOIN_TIMER: on_join_timer,
        SYNC_TIMER: on_sync_timer,
    },
    records=classic_store.all_records,
    on_elected=_on_elected,
)
