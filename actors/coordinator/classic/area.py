"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, records and timers.

Reading order: `group` (the live object, its transition table), `rebalance` (what moves it), then the requests
in `join`, `session` and `leave`; `store` keeps what survives a failover, and `kind` is what the rest of the
coordinator sees. A group that has only offsets is none of these and has no live object.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.group import (
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
)
from actors.coordinator.classic.join import join_group
from actors.coordinator.classic.leave import leave_group
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.rebalance import (
    arm_session,
    on_join_timer,
    on_session_timer,
    on_sync_timer,
    prepare_rebalance,
)
from actors.coordinator.classic.session import heartbeat, sync_group
from actors.coordinator.classic.state import classic_groups, stored_groups
from actors.coordinator.classic.views import describe_groups
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import SLICE_MAX, begun, group_members
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Result
from actors.ground.records import CLASSIC_MEMBER, GROUP_METADATA
from actors.protocol import api_keys


def _on_elected(state: ShardState, now_ms: int) -> Result:
    """C26: groups come up as last stored, with full sessions. One that is too big now rebalances, and so does
    one that was a consumer group and has not rebalanced since (G7)."""
    return begun(_rebuilt(state, now_ms), group_members(state))


def _rebuilt(state: ShardState, now_ms: int) -> Iterator[Result]:
    outcome, done = Outcome(state, now_ms), 0
    size_max = state.settings.group_max_size
    for group_id, stored in stored_groups(state).items():
        if state.is_owned(group_id):
            continue
        group = classic_groups(state)[group_id] = classic_store.rebuild(group_id, stored, now_ms)
        for member in group.members.values():
            arm_session(outcome, member)
        if len(group.members) > size_max:
            prepare_rebalance(outcome, group, Cause("the group is larger than it may be"))
        elif group.members and stored.metadata is not None and stored.metadata.leader is None:
            prepare_rebalance(outcome, group, Cause("the group became a classic one"))
        done += 1 + len(group.members)
        if done > SLICE_MAX:
            yield outcome.result()
            outcome, done = Outcome(state, now_ms), 0
    yield outcome.result()


AREA = Area(
    handlers={
        api_keys.JOIN_GROUP: join_group,
        api_keys.SYNC_GROUP: sync_group,
        api_keys.HEARTBEAT: heartbeat,
        api_keys.LEAVE_GROUP: leave_group,
        api_keys.DESCRIBE_GROUPS: describe_groups,
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
