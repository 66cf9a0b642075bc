"""What a replica coordinates while it leads and serves."""

from __future__ import annotations

from actors.coordinator.shard import CoordinatorShard
from actors.replica.host import ReplicaHost


def serving_shard(host: ReplicaHost) -> CoordinatorShard | None:
    """Return the replica's coordinators; None if it does not serve, or has none."""
    shard = host.replica.shard
    return shard if host.replica.serving and isinstance(shard, CoordinatorShard) else None
