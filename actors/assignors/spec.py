"""What an assignor is given: plain values, so that the same group always gets the same assignment."""

from __future__ import annotations

from collections.abc import Mapping
from struct import unpack
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

TopicPartitions = tuple[tuple[bytes, bytes], ...]
"""An assignment as in the coordinator's records: (topic id, packed ascending big-endian int32), sorted by
topic id."""


class MemberSpec(NamedTuple):
    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    """The subscribed topics that exist. Members with equal subscriptions should share one object."""
    target: TopicPartitions
    """What the member was to have so far, of which the new assignment keeps as much as possible."""
    rack_id: str | None = None
    user_data: bytes = b""
    """What the member told this assignor, where a member computes; a coordinator hands out none."""

    @property
    def target_partitions(self) -> dict[bytes, tuple[int, ...]]:
        """Return `target` unpacked: topic id -> partitions."""
        return {topic_id: unpack(f">{len(numbers) // 4}i", numbers) for topic_id, numbers in self.target}


class AssignmentSpec(NamedTuple):
    members: tuple[MemberSpec, ...]
    partition_counts: Mapping[bytes, int]
    """Topic id -> number of partitions, for every topic that a member subscribes to."""


Assignment = dict[str, TopicPartitions]
"""Member id -> its partitions; every member of the spec has an entry."""
OWN_NAMES = ("uniform", "range", "uniform-rack", "range-rack")
"""The assignors that come with this package: Kafka's two, which do not look at racks, and two that do."""
ENTRY_POINTS = "groupd.assignors"


def is_assignor(entry: str) -> bool:
    """Return whether an entry of `group.consumer.assignors` has a form that can be looked up."""
    return entry in OWN_NAMES or all(entry.partition(":")) or entry in installed().names


def installed() -> EntryPoints:
    """Return the plug-ins that are installed under a name."""
    from importlib.metadata import entry_points  # only a tier with plug-ins pays: 40 modules

    return entry_points(group=ENTRY_POINTS)
