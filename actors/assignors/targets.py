"""An assignment as arrays: every member's partitions, sorted by topic and number, and which members' have
changed."""

from __future__ import annotations

from functools import cached_property

from actors.assignors.group import Group
from actors.assignors.kernels import Ints
from actors.assignors.spec import Assignment, TopicPartitions


class Targets:
    """What each member is to have. It is good until the group changes or is assigned again.

    numbers[begins[slot]] to numbers[begins[slot + 1]] (i4[P]) are a member's partitions by topic, ascending,
    as their numbers within it. segments[2 * begins[slot]] to segments[ends[slot]] (i4[2P]) are its topics,
    ascending, by pairs: a topic's place in `topic_ids`, and where in `numbers` it begins.
    """

    def __init__(self, group: Group, owner: Ints, sizes: Ints) -> None:
        """Take an assignment that is to be sorted, then compared. `owner` (i4[P], complete) is who has each
        partition, `sizes` (i4[M]) how many each member has."""
        self._group = group
        self._owner = owner
        kernels, slots = group.kernels, len(group.members)
        self.begins, self.ends = kernels.full(slots + 1, 0), kernels.full(slots, 0)
        kernels.add_up(sizes, self.begins, self.ends)
        self.numbers, self.segments = group.scratch("numbers"), group.scratch("segments", 2)
        self._changed = kernels.full(slots, 0)

    def sort(self) -> None:
        kernels, group = self._group.kernels, self._group
        last = kernels.full(len(group.members), -1)
        kernels.sort_by_member(
            self._owner, group.starts, self.begins[:-1].copy(), last, self.ends, self.segments, self.numbers
        )

    def sort_ranges(self, topics: Ints, count: int, members: Ints) -> None:
        """Sort, as `sort` does, when these members have ranges of these topics, of `count` partitions each,
        and have nothing else."""
        kernels = self._group.kernels
        kernels.sort_ranges(topics, count, members, self.begins, self.ends, self.segments, self.numbers)

    def compare(self, before: Ints) -> None:
        """Find the members whose partitions have changed since `before` (i4[P], the group's `before()`)."""
        self._group.kernels.compare(self._owner, before, self._changed)

    @cached_property
    def _packed(self) -> bytes:
        packed: bytes = self._group.kernels.pack(self.numbers)
        return packed

    def of(self, slot: int) -> TopicPartitions:
        """Return a member's target as the coordinator's records hold it."""
        listed, topic_ids, packed = self._group.kernels.listed, self._group.topic_ids, self._packed
        first, end = listed(self.begins[slot : slot + 2])
        pairs = listed(self.segments[2 * first : self.ends[slot]])
        begins = pairs[1::2]
        return tuple(
            (topic_ids[topic], packed[4 * begin : 4 * stop])
            for topic, begin, stop in zip(pairs[::2], begins, [*begins[1:], end], strict=False)
        )

    def changes(self) -> Assignment:
        """Return member id -> target, for the members that are to have something else than so far. Most
        likely these targets are put into the group's arrays next."""
        group = self._group
        changes: Assignment = {}
        for slot in sorted({*group.kernels.raised(self._changed), *group.untold, *group.odd}):
            target, member = self.of(slot), group.members[slot]
            if target != member.target or slot in group.untold:
                changes[member.member_id] = target
        group.expect(changes, self._owner)
        return changes

    def assignment(self) -> Assignment:
        """Return member id -> target, for all members."""
        return {member_id: self.of(slot) for member_id, slot in self._group.slots.items()}
