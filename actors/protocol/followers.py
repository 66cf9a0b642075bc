"""Who asks with a Fetch: a consumer, or a broker that follows as a replica."""

from __future__ import annotations

from typing import Any, Final

_REPLICA_STATE_SINCE: Final = 15


def follower_of(version: int, entity: Any) -> tuple[int, int] | None:
    """Return id and epoch of the broker that fetches as a follower; None for a consumer (KIP-903)."""
    state = entity.replica_state if version >= _REPLICA_STATE_SINCE else None
    broker_id, epoch = (entity.replica_id, -1) if state is None else (state.replica_id, state.replica_epoch)
    return None if broker_id < 0 else (broker_id, epoch)
