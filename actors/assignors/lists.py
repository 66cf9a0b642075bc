"""A small consumer group as lists, made anew for each assignment: for so few members and partitions that is
cheaper than to keep arrays, and most groups are small."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from struct import unpack

from actors.assignors import topic_sets
from actors.assignors.compiled import PLAIN
from actors.assignors.kernels import FREE
from actors.assignors.spec import Assignment, AssignmentSpec, MemberSpec
from actors.assignors.topic_sets import NO_RACK, RacksOf, key


class GroupLists:
    """A small group as `group.Group` describes groups; the module says why. Slots are in Kafka's order of
    members."""

    kernels = PLAIN

    def __init__(
        self,
        members: Iterable[MemberSpec],
        partition_count: Callable[[bytes], int],
        untold: Container[str] = (),
    ) -> None:
        """Make the group of `members`. `untold` has the ids of those that were never given a target, maybe of
        others too."""
        self.members = sorted(members, key=key)
        self.slots = {member.member_id: slot for slot, member in enumerate(self.members)}
        self.untold = {slot for slot, each in enumerate(self.members) if each.member_id in untold}
        classes: dict[frozenset[bytes], int] = {}
        self._class_of = [classes.setdefault(each.topic_ids, len(classes)) for each in self.members]
        layout = topic_sets.lay_out(classes, partition_count, list)
        self.topic_ids, self.starts, self.topic_sets, self.is_simple = layout
        self.odd: set[int] = set()
        self._before = self._owners()

    @classmethod
    def of(cls, spec: AssignmentSpec) -> GroupLists:
        return cls(spec.members, spec.partition_counts.__getitem__)

    def _owners(self) -> list[int]:
        starts = self.starts
        spans = {topic_id: (starts[at], starts[at + 1]) for at, topic_id in enumerate(self.topic_ids)}
        owner = [FREE] * starts[-1]
        for slot, member in enumerate(self.members):
            for topic_id, packed in member.target:
                begin, end = spans.get(topic_id, (0, 0)) if topic_id in member.topic_ids else (0, 0)
                for number in unpack(f">{len(packed) // 4}i", packed):
                    p = begin + number
                    if begin <= p < end and owner[p] == FREE:
                        owner[p] = slot
                    else:
                        self.odd.add(slot)
        return owner

    def subscribers(self) -> list[list[int]]:
        found = []
        for topic_set in self.topic_sets:
            takes = set(topic_set.classes)
            found.append([slot for slot, number in enumerate(self._class_of) if number in takes])
        return found

    def before(self) -> list[int]:
        return self._before

    def copy(self, before: list[int]) -> list[int]:
        return before.copy()

    def scratch(self, use: str, each: int = 1) -> list[int]:
        return [0] * (each * self.starts[-1])

    def racks(self, racks_of: RacksOf) -> tuple[list[int], list[int], int] | None:
        of_partitions, numbers = topic_sets.partition_racks(self.topic_ids, racks_of)
        of_members = topic_sets.member_racks(self.members, numbers)
        if max(of_members, default=NO_RACK) == NO_RACK or len(set(of_partitions)) == 1:
            return None
        return of_partitions, of_members, len(numbers)

    def expect(self, changes: Assignment, owner: list[int]) -> None:
        """Do nothing: lists are not kept for the next assignment."""
