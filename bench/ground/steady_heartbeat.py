"""The fields of a ConsumerGroupHeartbeat, by the names that the codec gives them."""

from __future__ import annotations

from typing import Any


def steady_heartbeat(group_id: str, member_id: str, member_epoch: int, **said: Any) -> dict[str, Any]:
    """Return the fields of a heartbeat that says nothing new (KIP-848), but for those that are `said`."""
    return {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": member_epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": -1,
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": None,
        **said,
    }
