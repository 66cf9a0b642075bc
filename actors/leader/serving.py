"""What a replica coordinates while it leads and serves."""

from __future__ import annotations

from actors.coordinator.shard import CoordinatorShard
from actors.replica.host import ReplicaHost


def serving_shard(host: ReplicaHost) -> CoordinatorShard | None:
    """None: it does not serve, or has no coordinators."""
    shard = host.replica.shard
    return shard if host.replica.serving and isinstance(shard, CoordinatorShard) else None
