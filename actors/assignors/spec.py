"""What an assignor is given: plain values, so that the same group always gets the same assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

TopicPartitions = tuple[tuple[bytes, bytes], ...]
"""As in the coordinator's records: (topic id, packed ascending big-endian int32), sorted by topic id."""


class MemberSpec(NamedTuple):
    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    """Subscribed topics that exist. Members with equal subscriptions should share one object."""
    target: TopicPartitions
    """What the member was to have so far: the assignment to keep as much of as possible."""


class AssignmentSpec(NamedTuple):
    members: tuple[MemberSpec, ...]
    partition_counts: Mapping[bytes, int]
    """Partitions of every topic that a member subscribes to."""


Assignment = dict[str, TopicPartitions]
"""By member id; every member of the spec has an entry."""
Assignor = Callable[[AssignmentSpec], Assignment]
"""Pure and deterministic: depends on the spec's content, not on the order of its members."""
