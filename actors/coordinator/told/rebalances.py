"""Rebalances under way, for history alone: how each began, who was late, what it has moved so far.

Volatile: a group has an entry from its first change until it is stable again.
"""

from __future__ import annotations

from typing import Any

from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.coordinator.told.events import RebalanceBegan, RebalanceDelayed, RebalanceEnded
from actors.coordinator.told.moves import Moves
from storage.history.schema import WAITED_FOR_MAX, Move


class Rebalance:
    """One rebalance of one group."""

    __slots__ = (
        "assigned_ms",
        "assignor",
        "before",
        "began",
        "delayed",
        "gone",
        "group_type",
        "last_joined",
        "late",
        "moved",
        "moves",
        "partitions",
        "revoked_ms",
    )

    def __init__(self, group_type: str) -> None:
        self.group_type = group_type
        self.began: RebalanceBegan | None = None
        """It is None if somebody left whose partitions the next rebalance will move."""
        self.delayed: RebalanceDelayed | None = None
        """The first of the joins and leaves that it waited for."""
        self.gone: tuple[str, str, str] | None = None
        """Member id, client id and host of who left a classic group last."""
        self.before: dict[str, Any] = {}
        """What members had that are gone or are about to get something else, by member id: as the type of the
        group keeps it."""
        self.late: dict[str, None] = {}
        """Members that were waited for in vain, and removed."""
        self.last_joined: str | None = None
        """The member whose join completed a classic group's join phase."""
        self.assigned_ms: int | None = None
        """When a classic group's join phase was complete, or a consumer group's target stood."""
        self.revoked_ms: int | None = None
        """When a member last gave up what it had to."""
        self.assignor: str | None = None
        self.partitions: int | None = None
        self.moved: int | None = None
        self.moves: tuple[Move, ...] | None = None

    def take_moves(self, found: tuple[int, Moves] | None) -> None:
        """Keep how many partitions are assigned, and which of them moved; None: nobody knows."""
        self.partitions, (self.moved, self.moves) = (None, (None, None)) if found is None else found

    def ended(
        self, now_ms: int, group_epoch: int, state: str, members: int, last_ids: tuple[str, ...] = ()
    ) -> RebalanceEnded:
        """The event of the rebalance's end. `last_ids`: members whose coming ended its phases."""
        began, assigned_ms = self.began, self.assigned_ms
        assert began is not None
        syncing_ms = None if assigned_ms is None else now_ms - assigned_ms
        revoked_ms = None if assigned_ms is None or self.revoked_ms is None else self.revoked_ms - assigned_ms
        late = tuple({**self.late, **dict.fromkeys(last_ids)})
        return RebalanceEnded(
            now_ms,
            began.group_id,
            self.group_type,
            group_epoch,
            state,
            began.cause,
            began.rule,
            began.member_id,
            began.reason,
            now_ms - began.at_ms,
            (now_ms if assigned_ms is None else assigned_ms) - began.at_ms,
            syncing_ms,
            revoked_ms,
            members,
            self.partitions,
            self.moved,
            self.moves,
            late[:WAITED_FOR_MAX],
            self.assignor,
        )


def of(state: ShardState, group_id: str, group_type: str) -> Rebalance:
    """The group's rebalance, a new one if it has none: what it had as another kind of group is over."""
    found = under_way(state, group_id)
    if found is None or found.group_type != group_type:
        found = state.rebalances[group_id] = Rebalance(group_type)
    return found


def under_way(state: ShardState, group_id: str) -> Rebalance | None:
    """The group's rebalance, None if it is in none."""
    found: Rebalance | None = state.rebalances.get(group_id)
    return found


def drop(state: ShardState, group_id: str, group_type: str) -> None:
    """Forget the rebalance: the group is gone, or has become one of another kind."""
    found = under_way(state, group_id)
    if found is not None and found.group_type == group_type:
        del state.rebalances[group_id]


def target_stands(state: ShardState, event: AssignmentComputed) -> None:
    """Note that a group has a new target."""
    found = of(state, event.group_id, event.group_type)
    found.before.clear()
    found.assigned_ms = event.at_ms
    found.assignor, found.partitions = event.assignor, event.partitions
    found.moved, found.moves = event.moved, event.moves
