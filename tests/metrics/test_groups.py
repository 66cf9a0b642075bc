"""Groups by state, members and offsets, as a leader counts them when it is asked (A23)."""

from __future__ import annotations

from typing import Any

from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.shard import CoordinatorShard
from actors.ground.records import OffsetCommitValue
from actors.metrics.families import FAMILIES
from actors.metrics.groups import GROUPS_PER_STEP, group_rows
from tests.coordinator.shards import new_shard


def counted(shard: CoordinatorShard) -> tuple[dict[tuple[str, tuple[str, ...]], Any], int]:
    """The rows, and in how many steps they were counted."""
    counting, steps = group_rows(shard), 1
    while True:
        try:
            next(counting)
        except StopIteration as done:
            return {(name, labels): value for name, labels, value in done.value}, steps
        steps += 1


def test_leader_without_groups_reports_every_state_as_zero() -> None:
    rows, _ = counted(new_shard())
    assert set(rows.values()) == {0}
    assert ("consumer_group_count", ("Reconciling",)) in rows
    assert {name for name, _ in rows} <= set(FAMILIES)


def test_group_that_is_only_its_offsets_is_an_empty_classic_one() -> None:
    """O1: ListGroups shows such a group in the same way."""
    shard = new_shard()
    offset = OffsetCommitValue(1, -1, "", 0, -1, b"")
    shard.state.offsets["simple"] = {("t", 0): offset, ("t", 1): offset}
    rows, _ = counted(shard)
    assert rows["classic_group_count", ("Empty",)] == rows["group_count", ("classic",)] == 1
    assert rows["offset_count", ()] == 2


def test_many_groups_are_counted_in_steps() -> None:
    """A scrape counts some groups at a time, so that no heartbeat waits for it."""
    shard = new_shard()
    groups = 3 * GROUPS_PER_STEP
    for number in range(groups):
        consumer_groups(shard.state)[f"g{number}"] = ConsumerGroup(f"g{number}")
    rows, steps = counted(shard)
    assert rows["consumer_group_count", ("Empty",)] == rows["group_count", ("consumer",)] == groups
    assert steps > 3
