"""The timers of classic members in a consumer group (G3): who must join or sync again and does not is out.

Both run for the member's rebalance timeout, in place of a consumer member's rebalance timer (M16).
"""

from __future__ import annotations

from actors.coordinator.ground.state import ShardState

JOIN_TIMER = "migration-join"
"""Runs since the member was told that a rebalance is in progress."""
SYNC_TIMER = "migration-sync"
"""The timer that runs from the answer to the member's JoinGroup until its SyncGroup."""

Key = tuple[str, str, str]


def join_key(group_id: str, member_id: str) -> Key:
    return (JOIN_TIMER, group_id, member_id)


def sync_key(group_id: str, member_id: str) -> Key:
    return (SYNC_TIMER, group_id, member_id)


def cancel(state: ShardState, group_id: str, member_id: str) -> None:
    """Cancel both timers: the member is gone, or speaks the consumer protocol from now on."""
    state.timers.cancel(join_key(group_id, member_id))
    state.timers.cancel(sync_key(group_id, member_id))
