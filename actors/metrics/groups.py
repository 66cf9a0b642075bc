"""What a leader's groups amount to, counted when somebody asks: nothing is kept up to date for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from actors.coordinator.ground.state import ShardState
from actors.coordinator.shard import CoordinatorShard
from actors.metrics.numbers import Row, gauge_rows

GROUPS_PER_STEP = 2_000
"""About a millisecond of the loop's time."""
CLASSIC_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
"""All of them are reported, so that a state nobody is in is 0 and not unknown."""


def group_rows(shard: CoordinatorShard) -> Generator[None, None, list[Row]]:
    """The rows of a serving leader. Yields between two steps of bounded work; requests may be served in
    between: the numbers are then of no single moment."""
    state = shard.state
    classic_states, classic_members = yield from _classic(state)
    consumer_states, consumer_members = yield from _consumer(state)
    offsets, only_offsets = yield from _offsets(state)
    classic_states["Empty"] += only_offsets
    return [
        ("group_count", ("classic",), classic_states.total()),
        ("group_count", ("consumer",), consumer_states.total()),
        *gauge_rows("classic_group_count", {name: classic_states[name] for name in CLASSIC_STATES}),
        *gauge_rows("consumer_group_count", {name: consumer_states[name] for name in CONSUMER_STATES}),
        ("group_member_count", ("classic",), classic_members),
        ("group_member_count", ("consumer",), consumer_members),
        ("offset_count", (), offsets),
    ]


def _classic(state: ShardState) -> Generator[None, None, tuple[Counter[str], int]]:
    states, members = Counter[str](), 0
    for number, group in enumerate(list(state.classic.values()), 1):
        states[group.state.value] += 1
        members += len(group.members)
        if number % GROUPS_PER_STEP == 0:
            yield
    return states, members


def _consumer(state: ShardState) -> Generator[None, None, tuple[Counter[str], int]]:
    states, members = Counter[str](), 0
    for number, group in enumerate(list(state.consumer.values()), 1):
        states[group.state_name] += 1
        members += group.size
        if number % GROUPS_PER_STEP == 0:
            yield
    return states, members


def _offsets(state: ShardState) -> Generator[None, None, tuple[int, int]]:
    """Committed offsets, and how many groups are nothing but their offsets (O1)."""
    offsets, only_offsets = 0, 0
    for number, (group_id, kept) in enumerate(list(state.offsets.items()), 1):
        offsets += len(kept)
        only_offsets += group_id not in state.classic and group_id not in state.consumer
        if number % GROUPS_PER_STEP == 0:
            yield
    return offsets, only_offsets
