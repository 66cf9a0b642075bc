"""What a classic group is doing, in a sentence, and whom it waits for."""

from __future__ import annotations

from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    ClassicGroup,
    ClassicMember,
)
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.ground.explanation import Explanation, Waited
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CLASSIC


def explain(state: ShardState, group_id: str, now_ms: int) -> Explanation:
    """Explain a live classic group."""
    group = classic_groups(state)[group_id]
    says, waited = _doing(state, group, now_ms)
    return Explanation(
        group_id,
        CLASSIC,
        group.state_name,
        group.generation,
        None,
        group.size,
        says,
        since_ms=group.current_state_timestamp_ms,
        waited_for=tuple(waited),
    )


def _doing(state: ShardState, group: ClassicGroup, now_ms: int) -> tuple[str, list[Waited]]:
    if group.state is PREPARING_REBALANCE:
        return _preparing(state, group)
    waited = [
        _waited(state, group.members[each], "sent SyncGroup", state.timers.deadline_ms(group.sync_key))
        for each in group.pending_syncs
    ]
    if group.state is COMPLETING_REBALANCE:
        waited.sort(key=lambda each: each.member_id != group.leader)
        if waited and waited[0].member_id == group.leader:
            waited[0] = waited[0]._replace(what="sent the assignment, which it makes as the leader")
        return "the leader has the assignment to make, and the others wait for it", waited
    if group.state is EMPTY:
        return "it has no members", _pending(state, group)
    if group.changes:
        left_ms = max((state.timers.deadline_ms(group.join_key) or now_ms) - now_ms, 0)
        changes = "1 join or leave waits" if group.changes == 1 else f"{group.changes} joins and leaves wait"
        return f"{changes} for more, at most {left_ms / 1000:.1f} s, to be taken together", waited
    return "all members have their assignments" if not waited else "some have not fetched theirs", waited


def _preparing(state: ShardState, group: ClassicGroup) -> tuple[str, list[Waited]]:
    if group.initial_delay_ms > 0:
        return "the first members have joined, and more may come (group.initial.rebalance.delay.ms)", []
    waited = [
        _waited(state, member, "joined again", group.join_deadline_ms)
        for member in group.members.values()
        if member.join_token is None
    ] + _pending(state, group)
    if not waited:
        return "all have joined, and it waits a moment for more who come", []
    return "not all members have joined again", waited


def _waited(state: ShardState, member: ClassicMember, what: str, deadline_ms: int | None) -> Waited:
    """A member that is waited for. It is out when the phase is over, or its session before that; a static
    member only by its session."""
    session_ms = state.timers.deadline_ms(member.session_key)
    is_static = member.group_instance_id is not None and what == "joined again"
    ends = [each for each in (None if is_static else deadline_ms, session_ms) if each is not None]
    client = member.group_instance_id, member.client_id, member.client_host
    return Waited(member.member_id, *client, what, min(ends, default=None))


def _pending(state: ShardState, group: ClassicGroup) -> list[Waited]:
    return [
        Waited(member_id, None, None, None, "come back with its member id", state.timers.deadline_ms(key))
        for member_id, key in group.pending_joins.items()
    ]
