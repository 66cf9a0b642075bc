"""The range assignor (M10): per topic even within one, co-partitioned, sticky.

Topics with the same number of partitions and the same subscribers are assigned alike, partition by
partition, so that joins find equal partitions of such topics with one member. Within each such set of
topics as few partition numbers move as can be, judged by the topic of which most is assigned so far;
free numbers are given out in ranges.
"""

from __future__ import annotations

import numpy as np

from actors.assignors import kernels
from actors.assignors.arrays import FREE, GroupArrays
from actors.assignors.spec import Assignment, AssignmentSpec

NAME = "range"


def assign(spec: AssignmentSpec) -> Assignment:
    arrays = GroupArrays(spec)
    owner = arrays.owner.copy()
    subscribers = arrays.subscribers()
    alike: dict[tuple[int, int], list[int]] = {}
    for topic, count in enumerate(arrays.partition_counts):
        if count:
            # Topics with the same subscribers share one array.
            alike.setdefault((count, id(subscribers[topic])), []).append(topic)
    for topics in alike.values():
        shared = _share(arrays, topics, subscribers[topics[0]])
        for topic in topics:
            owner[arrays.partitions_of(topic)] = shared
    return arrays.assignment(owner)


def _share(arrays: GroupArrays, topics: list[int], subscribers: kernels.Int32s) -> kernels.Int32s:
    """i4[partitions of each of the topics]: the owner of each partition number."""
    lead = max(topics, key=lambda t: (int(np.sum(arrays.owner[arrays.partitions_of(t)] >= 0)), -t))
    present = arrays.owner[arrays.partitions_of(lead)]
    local = np.where(present >= 0, np.searchsorted(subscribers, present), FREE).astype(np.int32)
    kept, cap = np.zeros(len(subscribers), dtype=np.int32), np.zeros(len(subscribers), dtype=np.int32)
    kernels.run(kernels.share_evenly, arrays.elements, local, kept, cap)
    return subscribers[local]
