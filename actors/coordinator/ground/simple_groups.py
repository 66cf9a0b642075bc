"""Simple groups: those that are offsets alone, of clients without group management (O1).

Nothing is stored for one: what has offsets and is no other kind of group is a simple group, and becomes one
of any kind as soon as a member joins (R8). When its last offset is deleted it goes on being Empty until the
next check of retention, as in Kafka (O15); that the leader alone remembers, so a failover forgets it.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.ground.state import ShardState

SHOWN_AS = "classic"
"""The kind of group that Kafka shows a simple group as, Empty."""


def exists(state: ShardState, group_id: str) -> bool:
    """Whether this is the id of a simple group."""
    return (
        group_id in state.offsets or group_id in state.pending_offsets or group_id in state.simple_groups
    ) and not (is_managed(state, group_id) or group_id in state.dying)


def is_managed(state: ShardState, group_id: str) -> bool:
    """Whether this is the id of a group that has, or had, members."""
    return any(group_id in groups for groups, _ in state.groups_by_kind)


def places(state: ShardState) -> tuple[Iterable[str], ...]:
    """The collections that have the ids of all simple groups, among others'."""
    return state.offsets, state.pending_offsets, state.simple_groups


def keep(state: ShardState, group_id: str) -> None:
    """Let the group exist without an offset until the next check."""
    if not (is_managed(state, group_id) or group_id in state.dying):
        state.simple_groups[group_id] = None
