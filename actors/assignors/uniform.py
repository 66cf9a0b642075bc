"""The uniform assignor (M10): as even as the subscriptions allow, and sticky.

Homogeneous groups: member loads differ by at most one and the number of moved partitions is the smallest
possible. Heterogeneous groups: no single partition can be moved to make two loads more even; evenness
comes before stickiness, as in Kafka.
"""

from __future__ import annotations

import numpy as np

from actors.assignors import kernels
from actors.assignors.arrays import GroupArrays
from actors.assignors.spec import Assignment, AssignmentSpec

NAME = "uniform"


def assign(spec: AssignmentSpec) -> Assignment:
    arrays = GroupArrays(spec)
    if not len(arrays.owner):
        return arrays.assignment(arrays.owner)
    owner = arrays.owner.copy()
    if arrays.homogeneous:
        members = len(arrays.members)
        kept, cap = np.zeros(members, dtype=np.int32), np.zeros(members, dtype=np.int32)
        kernels.run(kernels.share_evenly, arrays.elements, owner, kept, cap)
    else:
        _share_by_topic(arrays, owner)
    return arrays.assignment(owner)


def _share_by_topic(arrays: GroupArrays, owner: kernels.Int32s) -> None:
    subscribers, elements = arrays.subscribers(), arrays.elements
    load = np.bincount(owner[owner >= 0], minlength=len(arrays.members)).astype(np.int32)
    topics = [t for t in _scarcest_first(arrays, subscribers) if arrays.partition_counts[t]]
    for topic in topics:
        part = owner[arrays.partitions_of(topic)]
        kernels.run(kernels.fill_topic, elements, part, load, subscribers[topic])
    movable = [topic for topic in topics if len(subscribers[topic]) > 1]

    def level(topics: list[int]) -> list[int]:
        """Go through the topics once; which of them had a move."""
        moved: list[int] = []
        for topic in topics:
            part = arrays.partitions_of(topic)
            arguments = owner[part], arrays.owner[part], load, subscribers[topic]
            if kernels.run(kernels.level_topic, elements, *arguments):
                moved.append(topic)
        return moved

    uneven = movable
    while uneven:
        while uneven:
            uneven = level(uneven)
        # Levelling one topic may have made room in another that was even before.
        uneven = level(movable)


def _scarcest_first(arrays: GroupArrays, subscribers: list[kernels.Int32s]) -> list[int]:
    """Topics that burden their subscribers most come first: those with choice fill the gaps."""
    counts = arrays.partition_counts
    return sorted(
        range(len(arrays.topic_ids)),
        key=lambda t: (-counts[t] / len(subscribers[t]), len(subscribers[t]), t),
    )
