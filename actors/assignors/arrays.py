"""Between assignments and the kernels' arrays: one numbering of a group's members, topics and partitions.

Members come in the order of instance id, else member id: a restarted static member stands where it stood.
Members without an existing topic have no number: they get nothing.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from actors.assignors.kernels import Int32s
from actors.assignors.spec import Assignment, AssignmentSpec, MemberSpec, TopicPartitions

FREE = -1


class GroupArrays:
    """A spec as arrays. Partition p of topic t is number `topic_start[t] + p`."""

    def __init__(self, spec: AssignmentSpec) -> None:
        self._spec = spec
        self.members = sorted(
            (member for member in spec.members if member.topic_ids),
            key=lambda member: (member.instance_id or member.member_id, member.member_id),
        )
        self._classes: dict[frozenset[bytes], list[int]] = {}
        for number, member in enumerate(self.members):
            self._classes.setdefault(member.topic_ids, []).append(number)
        self.topic_ids = sorted({topic_id for topic_ids in self._classes for topic_id in topic_ids})
        self._topic_numbers = {topic_id: number for number, topic_id in enumerate(self.topic_ids)}
        counts = [spec.partition_counts[topic_id] for topic_id in self.topic_ids]
        self.partition_counts = counts
        self.topic_start: list[int] = [0, *accumulate(counts)]
        self.owner: Int32s = self._present_owner()

    @property
    def homogeneous(self) -> bool:
        """M10: every member (that subscribes to anything) subscribes to the same topics."""
        return len(self._classes) <= 1

    @property
    def elements(self) -> int:
        """How much work the group is: partitions, members and subscriptions."""
        return len(self.owner) + sum(len(t) * len(m) for t, m in self._classes.items())

    def partitions_of(self, topic: int) -> slice:
        return slice(self.topic_start[topic], self.topic_start[topic + 1])

    def subscribers(self) -> list[Int32s]:
        """By topic: its subscribers' numbers, ascending. Topics of like subscribers share one array."""
        classes_of: list[list[int]] = [[] for _ in self.topic_ids]
        members_of = list(self._classes.values())
        for number, topic_ids in enumerate(self._classes):
            for topic_id in topic_ids:
                classes_of[self._topic_numbers[topic_id]].append(number)
        made: dict[tuple[int, ...], Int32s] = {}
        subscribers: list[Int32s] = []
        for classes in classes_of:
            key = tuple(classes)
            array = made.get(key)
            if array is None:
                numbers = sorted(number for c in classes for number in members_of[c])
                array = made[key] = np.array(numbers, dtype=np.int32)
            subscribers.append(array)
        return subscribers

    def _present_owner(self) -> Int32s:
        """i4[P]: who has each partition by the targets so far, FREE where nobody subscribed has it. Of
        two claims the first member's counts."""
        owner = np.full(self.topic_start[-1], FREE, dtype=np.int32)
        packed: list[bytes] = []
        lengths: list[int] = []
        claims: list[tuple[int, int, int]] = []
        for number, member in enumerate(self.members):
            for topic_id, numbers in member.target:
                if topic_id in member.topic_ids:
                    topic = self._topic_numbers[topic_id]
                    packed.append(numbers)
                    lengths.append(len(numbers) // 4)
                    claims.append((number, self.topic_start[topic], self.partition_counts[topic]))
        if not claims:
            return owner
        numbers_of = np.frombuffer(b"".join(packed), dtype=">i4").astype(np.int64)
        columns = np.repeat(np.array(claims, dtype=np.int64), lengths, axis=0)
        exists = (numbers_of >= 0) & (numbers_of < columns[:, 2])
        places = (numbers_of + columns[:, 1])[exists][::-1]
        # The last write wins, so the claims are written last to first.
        owner[places] = columns[:, 0][exists][::-1].astype(np.int32)
        return owner

    def assignment(self, owner: Int32s) -> Assignment:
        """Each member's partitions as records hold them; the target so far, as an object, if it is equal."""
        result: Assignment = {member.member_id: () for member in self._spec.members}
        if not len(owner):
            return result
        order = np.argsort(owner, kind="stable")
        owners = owner[order]
        topic_of = np.repeat(np.arange(len(self.topic_ids)), self.partition_counts)[order]
        starts = np.array(self.topic_start[:-1], dtype=np.int64)
        packed = (order - starts[topic_of]).astype(">i4").tobytes()
        changes = (owners[1:] != owners[:-1]) | (topic_of[1:] != topic_of[:-1])
        begins = np.concatenate(([0], np.flatnonzero(changes) + 1)).tolist()
        ends = [*begins[1:], len(owner)]
        pairs: list[list[tuple[bytes, bytes]]] = [[] for _ in self.members]
        pair_members, pair_topics = owners[begins].tolist(), topic_of[begins].tolist()
        for begin, end, member, topic in zip(begins, ends, pair_members, pair_topics, strict=True):
            pairs[member].append((self.topic_ids[topic], packed[4 * begin : 4 * end]))
        for spec, mine in zip(self.members, pairs, strict=True):
            result[spec.member_id] = _same_or(spec, tuple(mine))
        return result


def _same_or(member: MemberSpec, assigned: TopicPartitions) -> TopicPartitions:
    return member.target if member.target == assigned else assigned
