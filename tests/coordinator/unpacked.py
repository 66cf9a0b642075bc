"""Assignments as tests compare them: the numbers of partitions by topic, unpacked."""

from __future__ import annotations

from actors.coordinator.ground.partitions import unpack
from actors.ground.records import TopicPartitions


def to_lists(assignment: TopicPartitions) -> dict[bytes, tuple[int, ...]]:
    return {topic_id: unpack(packed) for topic_id, packed in assignment}
