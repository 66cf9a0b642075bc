"""Run the tier's assignors for `what_if`: a group's members come and go, and each change is assigned anew.

Spark's workers import this: it keeps a group as arrays and runs the compiled kernels on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from actors.assignors.arrays import GroupArrays
from actors.assignors.registry import OWN
from actors.assignors.spec import MemberSpec
from storage.history.jobs.what_if import Assigned, Step

NAMES = ("uniform", "range")
"""The assignors that can be replayed, Kafka's two: those that look at racks need racks, which history does
not tell."""


def replay(assignor: str, partition_counts: Mapping[str, int]) -> Step:
    """Return the step of a group without members, all of which will subscribe to all of these topics."""
    return _Replayed(assignor, {topic.encode(): count for topic, count in partition_counts.items()}).step


class _Replayed:
    def __init__(self, assignor: str, counts: Mapping[bytes, int]) -> None:
        self._assign = OWN[assignor].assign
        self._counts = counts
        self._topic_ids = frozenset(counts)
        self._group = GroupArrays()

    def step(self, came: Sequence[str], went: Sequence[str]) -> Assigned:
        group = self._group
        for member_id in went:
            group.drop(member_id)
        for member_id in came:
            group.put(MemberSpec(member_id, None, self._topic_ids, ()), told=False)
        if not group.slots or not self._counts:
            return Assigned(0, 0, 0)
        if not group.is_laid_out:
            group.lay_out(self._counts.__getitem__)
        before = group.before().copy()
        for member_id, target in self._assign(group, None).changes().items():
            group.put(MemberSpec(member_id, None, self._topic_ids, target))
        after = group.before()
        loads = np.bincount(after, minlength=len(group.members))[list(group.slots.values())]
        moved = np.count_nonzero((before >= 0) & (before != after))
        return Assigned(int(moved), int(loads.min()), int(loads.max()))
