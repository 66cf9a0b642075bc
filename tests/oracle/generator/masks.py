"""What is compared by its property: which partitions an assignor gives to whom is its own affair (it takes
members and topics in the order of hash maps), how many it gives is not. Times of a clock are not compared."""

from __future__ import annotations

import collections
from typing import Any, Final

MARKERS_SINCE_MS: Final = 1_000_000_000_000
"""A time, in ms, before which no marker was written."""


def masked(kind: str, api: str, answer: Any) -> Any:
    """The plain answer with partitions of KIP-848 assignments as their number. In a group of both protocols
    a server's assignments are in classic members' bytes too: of those the length."""
    if kind == "mixed" and api in ("sync_group", "describe_groups"):
        return _measured(answer)
    if api in ("consumer_group_heartbeat", "consumer_group_describe"):
        return _counted(answer)
    if api == "list_offsets":
        return _timeless(answer)
    return answer


def _timeless(value: Any) -> Any:
    """Leave out the times of markers, which are those of each server's clock; records' times are early."""
    if isinstance(value, dict):
        return {
            name: "now" if name == "timestamp" and inner > MARKERS_SINCE_MS else _timeless(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    return value


def _counted(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: len(inner) if name == "partitions" else _counted(inner) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_counted(each) for each in value]
    return value


def _measured(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: len(inner) if name in ("assignment", "member_assignment") else _measured(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_measured(each) for each in value]
    return value


def assigned_in_all(described: Any) -> Any:
    """What no assignor changes of ConsumerGroupDescribe's one group: epochs, subscriptions, and how many
    partitions of each topic are somebody's target, unless a member has left since that was computed."""
    group = described.groups[0]
    targets: collections.Counter[str] = collections.Counter()
    if group.assignment_epoch == group.group_epoch:
        for member in group.members:
            for part in member.target_assignment.topic_partitions:
                targets[part.topic_name] += len(part.partitions)
    wanted = sorted(
        (sorted(member.subscribed_topic_names), member.subscribed_topic_regex or "")
        for member in group.members
    )
    return group.error_code, group.group_epoch, group.assignment_epoch, wanted, targets
