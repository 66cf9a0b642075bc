"""A conversion that was cut in two: the new leader ends it or takes it back (see the package's docstring)."""

from __future__ import annotations

from actors.coordinator.classic import store as classic_store
from actors.coordinator.classic.state import stored_groups
from actors.coordinator.consumer.migration.downgrade import tombstones
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Record, Result


def is_consumer_group(state: ShardState, group_id: str) -> bool:
    """Whether a group is a consumer group, even between two halves of a conversion."""
    group = consumer_groups(state).get(group_id)
    return group is not None and (group.metadata is not None or group_id not in stored_groups(state))


def repair(state: ShardState, now_ms: int) -> Result:
    """Remove what is left, or already there, of the kind that the group is not."""
    records: list[Record] = []
    for group_id in sorted(stored_groups(state).keys() & consumer_groups(state).keys()):
        if is_consumer_group(state, group_id):
            records += classic_store.tombstones(state, group_id)
        else:
            records += tombstones(consumer_groups(state)[group_id])
    return Result(records)
