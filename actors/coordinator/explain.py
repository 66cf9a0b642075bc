"""The state of one group in a sentence, and whom it waits for: for an operator whose group is stuck.

Read from the live group as it is; nothing here is kept or replicated. What a group does, its kind says.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.ground.explanation import Explanation, Waited
from actors.coordinator.ground.kind import kind_of
from actors.coordinator.ground.simple_groups import SHOWN_AS
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from storage.history.schema import WAITED_FOR_MAX

__all__ = ("Explanation", "Waited", "explain", "states")


def explain(state: ShardState, group_id: str, now_ms: int) -> Explanation | None:
    """Explain a group; None if there is no such group."""
    kind, offsets = kind_of(state, group_id), len(state.offsets.get(group_id, ()))
    if kind is None:
        if not offsets:
            return None
        says = "it has committed offsets and no members: its consumers assign themselves, or are gone"
        return Explanation(group_id, SHOWN_AS, "Empty", 0, None, 0, says, offsets)
    found = kind.explain(state, group_id, now_ms)
    rebalance = rebalances.under_way(state, group_id)
    if rebalance is not None and rebalance.began is not None:
        began = rebalance.began
        found = found._replace(
            cause=began.cause, rule=began.rule, member_id=began.member_id, reason=began.reason
        )
    waited = found.waited_for
    return found._replace(offsets=offsets, waiting=len(waited), waited_for=waited[:WAITED_FOR_MAX])


def states(state: ShardState, group_ids: Iterable[str]) -> dict[str, tuple[str, int]]:
    """State and number of members of those groups that are there."""
    found = {}
    for group_id in group_ids:
        for groups, _ in state.groups_by_kind:
            group = groups.get(group_id)
            if group is not None:
                found[group_id] = group.state_name, group.size
    return found
