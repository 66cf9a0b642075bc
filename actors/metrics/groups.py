"""Count what a leader's groups amount to, when somebody asks: nothing is kept up to date for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable

from actors.coordinator.ground import simple_groups
from actors.coordinator.ground.kind import kinds_of
from actors.coordinator.ground.state import Group, ShardState
from actors.coordinator.shard import CoordinatorShard
from actors.metrics.numbers import Row, gauge_rows

GROUPS_PER_STEP = 2_000
"""How many groups are counted in one step, which takes about a millisecond of the loop's time."""


def group_rows(shard: CoordinatorShard) -> Generator[None, None, list[Row]]:
    """Return the rows of a serving leader. It yields between two steps of bounded work, and requests may be
    served in between: the numbers are then of no single moment."""
    state = shard.state
    states: dict[str, Counter[str]] = {}
    members: dict[str, int] = {}
    for groups, kind in state.groups_by_kind:
        states[kind.name], members[kind.name] = yield from _counted(list(groups.values()))
    offsets, only_offsets = yield from _offsets(state)
    states[simple_groups.SHOWN_AS]["Empty"] += only_offsets
    rows: list[Row] = [("group_count", (name,), counts.total()) for name, counts in states.items()]
    for kind in kinds_of(state):
        # All states are reported, so that one that no group is in is 0 and not unknown.
        counts = states[kind.name]
        rows += gauge_rows(f"{kind.name}_group_count", {name: counts[name] for name in kind.states})
    rows += [("group_member_count", (name,), count) for name, count in members.items()]
    return [*rows, ("offset_count", (), offsets)]


def _counted(groups: Iterable[Group]) -> Generator[None, None, tuple[Counter[str], int]]:
    """Return how many groups are in each state, and how many members they have."""
    states, members = Counter[str](), 0
    for number, group in enumerate(groups, 1):
        states[group.state_name] += 1
        members += group.size
        if number % GROUPS_PER_STEP == 0:
            yield
    return states, members


def _offsets(state: ShardState) -> Generator[None, None, tuple[int, int]]:
    """Return how many offsets are committed, and how many groups are nothing but their offsets (O1)."""
    offsets, only_offsets = 0, 0
    for number, (group_id, kept) in enumerate(list(state.offsets.items()), 1):
        offsets += len(kept)
        only_offsets += not simple_groups.is_managed(state, group_id)
        if number % GROUPS_PER_STEP == 0:
            yield
    return offsets, only_offsets
