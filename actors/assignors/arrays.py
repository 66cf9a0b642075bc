"""A big consumer group as arrays: its members, their subscriptions, and who has each partition.

The arrays are kept from one assignment to the next, and brought up to date by what has changed (`put`,
`drop`), so that no assignment begins with all members' strings. A member has a slot, a small number that it
keeps until it goes; members of equal subscriptions are one class; topics with the same classes of subscribers
are one topic set. Everything here follows from the members given and the topics of the last `lay_out`, in
whatever order they came.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable

import numpy as np

from actors.assignors import topic_sets
from actors.assignors.claims import Claims, Int32s
from actors.assignors.compiled import COMPILED
from actors.assignors.spec import Assignment, AssignmentSpec, MemberSpec, TopicPartitions
from actors.assignors.topic_sets import NO_RACK, RacksOf, TopicSet, key

FEW_CLASSES = 64
"""How many classes of subscribers, over all topic sets, are looked for among all members; more are looked up
by class."""
_NOBODY = MemberSpec("", None, frozenset(), ())


class GroupArrays:
    """A big group as `group.Group` describes groups; the module says how it is kept."""

    kernels = COMPILED

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.members: list[MemberSpec] = []
        """Slot -> its member; `_NOBODY` if the slot is free."""
        self._free: list[int] = []
        self._keys: list[tuple[bool, str, str]] = []
        self._order = array("i")
        """The slots in Kafka's order of members, which is that of `_keys`."""
        self._class_of = array("i")
        """Slot -> the number of its member's class."""
        self._classes: dict[frozenset[bytes], int] = {}
        self._class_sizes: list[int] = []
        self._free_classes: list[int] = []
        self._is_laid_out = False
        self._claims = Claims()
        self.topic_ids: list[bytes] = []
        self.starts: Int32s = np.zeros(1, dtype=np.int32)
        self.topic_sets: list[TopicSet] = []
        self.is_simple = True
        self._partition_racks: tuple[Int32s, dict[str, int]] | None = None
        self._scratch: dict[str, Int32s] = {}
        self.untold: set[int] = set()

    @classmethod
    def of(cls, spec: AssignmentSpec) -> GroupArrays:
        arrays = cls()
        for member in spec.members:
            arrays.put(member)
        arrays.lay_out(spec.partition_counts.__getitem__)
        return arrays

    # Members.

    def put(self, member: MemberSpec, *, told: bool = True) -> None:
        """Take a member in, or change it. `told` says whether it was ever given a target, if only an empty
        one."""
        slot = self.slots.get(member.member_id)
        if slot is None:
            slot = self._new_slot(member)
        old = self.members[slot]
        self.members[slot] = member
        if old.instance_id != member.instance_id:
            self._leave_order(old)
            self._enter_order(member, slot)
        if old.topic_ids is not member.topic_ids:
            self._class_of[slot] = self._enter_class(member.topic_ids)
            self._leave_class(old.topic_ids)
        if old.target is not member.target:
            self._claims.change(slot, member.target, old.target)
        if told:
            self.untold.discard(slot)
        else:
            self.untold.add(slot)

    def drop(self, member_id: str) -> None:
        """Forget a member, if the group has it."""
        slot = self.slots.pop(member_id, None)
        if slot is None:
            return
        old, self.members[slot] = self.members[slot], _NOBODY
        self._leave_order(old)
        self._leave_class(old.topic_ids)
        self._claims.change(slot, (), old.target)
        self.untold.discard(slot)
        self._free.append(slot)

    def _new_slot(self, member: MemberSpec) -> int:
        blank = _NOBODY._replace(member_id=member.member_id, instance_id=member.instance_id)
        if self._free:
            slot = self._free.pop()
            self.members[slot] = blank
        else:
            slot = len(self.members)
            self.members.append(blank)
            self._class_of.append(0)
        self.slots[member.member_id] = slot
        self._enter_order(blank, slot)
        self._class_of[slot] = self._enter_class(blank.topic_ids)
        return slot

    def _enter_order(self, member: MemberSpec, slot: int) -> None:
        place = key(member)
        at = bisect_left(self._keys, place)
        self._keys.insert(at, place)
        self._order.insert(at, slot)

    def _leave_order(self, member: MemberSpec) -> None:
        at = bisect_left(self._keys, key(member))
        del self._keys[at], self._order[at]

    # Classes.

    def _enter_class(self, topic_ids: frozenset[bytes]) -> int:
        number = self._classes.get(topic_ids)
        if number is None:
            self._is_laid_out = False
            if self._free_classes:
                number = self._free_classes.pop()
            else:
                number = len(self._class_sizes)
                self._class_sizes.append(0)
            self._classes[topic_ids] = number
        self._class_sizes[number] += 1
        return number

    def _leave_class(self, topic_ids: frozenset[bytes]) -> None:
        number = self._classes[topic_ids]
        self._class_sizes[number] -= 1
        if self._class_sizes[number] == 0:
            self._is_laid_out = False
            del self._classes[topic_ids]
            self._free_classes.append(number)

    # Topics.

    @property
    def is_laid_out(self) -> bool:
        """Return whether partitions are numbered for the classes of now. After a class of subscribers came or
        went they are not, and `lay_out` is due."""
        return self._is_laid_out

    def lay_out(self, partition_count: Callable[[bytes], int]) -> None:
        """Number the partitions of all topics that a member subscribes to. `partition_count` says how many a
        topic has, by its id."""
        layout = topic_sets.lay_out(self._classes, partition_count, _array)
        self.topic_ids, self.starts = layout.topic_ids, _array(layout.starts)
        self.topic_sets, self.is_simple = layout.topic_sets, layout.is_simple
        self._claims.lay_out(self.topic_ids, self.starts, self._targets())
        self._partition_racks = None
        self._scratch.clear()
        self._is_laid_out = True

    def _targets(self) -> Iterable[tuple[int, TopicPartitions]]:
        return ((slot, member.target) for slot, member in enumerate(self.members) if member.target)

    # For assignors.

    @property
    def partitions(self) -> int:
        return int(self.starts[-1])

    @property
    def elements(self) -> int:
        """Return how much work the group is: partitions, members, and the topics of each distinct
        subscription."""
        return self.partitions + len(self.slots) + sum(map(len, self._classes))

    def scratch(self, use: str, each: int = 1) -> Int32s:
        """Return an array for this use, always the same one: to touch fresh memory of a big group for the
        first time costs more than a kernel takes to run through it."""
        found = self._scratch.get(use)
        if found is None:
            found = self._scratch[use] = np.empty(each * self.partitions, dtype=np.int32)
        return found

    def copy(self, before: Int32s) -> Int32s:
        owner = self.scratch("owner")
        np.copyto(owner, before)
        return owner

    def order(self) -> Int32s:
        """Return the slots in the group's order, as i4."""
        return np.array(self._order, dtype=np.int32)

    def subscribers(self) -> list[Int32s]:
        """Return the slots of each topic set's subscribers, in the group's order."""
        order = self.order()
        class_of = np.array(self._class_of, dtype=np.int32)[order]
        if sum(len(each.classes) for each in self.topic_sets) > FEW_CLASSES:
            return self._subscribers_by_class(order, class_of)
        found = []
        for topic_set in self.topic_sets:
            takes = np.zeros(len(self._class_sizes), dtype=np.bool_)
            takes[list(topic_set.classes)] = True
            found.append(order[takes[class_of]])
        return found

    def _subscribers_by_class(self, order: Int32s, class_of: Int32s) -> list[Int32s]:
        """Return what `subscribers` does, if there are many topic sets: what one costs depends on its own
        subscribers alone."""
        by_class = np.argsort(class_of, kind="stable")
        ends = np.cumsum(np.bincount(class_of, minlength=len(self._class_sizes)))
        places = np.split(by_class, ends[:-1])
        return [order[np.sort(np.concatenate([places[c] for c in s.classes]))] for s in self.topic_sets]

    def before(self) -> Int32s:
        self._claims.count_changes()
        if not self._claims.are_disputed:
            return self._claims.owner
        members = ((slot, self.members[slot]) for slot in reversed(self._order))
        return self._claims.last_owner(
            (slot, tuple(pair for pair in each.target if pair[0] in each.topic_ids)) for slot, each in members
        )

    def expect(self, changes: Assignment, owner: Int32s) -> None:
        self._claims.count_changes()
        self._claims.expect({self.slots[member_id]: mine for member_id, mine in changes.items()}, owner)

    @property
    def odd(self) -> Iterable[int]:
        self._claims.count_changes()
        return self.slots.values() if self._claims.are_disputed else self._claims.strays

    def racks(self, racks_of: RacksOf) -> tuple[Int32s, Int32s, int] | None:
        """Return the racks as `group.Group.racks` says. A partition's rack holds until the next `lay_out`."""
        if self._partition_racks is None:
            found, numbers = topic_sets.partition_racks(self.topic_ids, racks_of)
            self._partition_racks = _array(found), numbers
        of_partitions, numbers = self._partition_racks
        of_members = topic_sets.member_racks(self.members, numbers)
        if max(of_members, default=NO_RACK) == NO_RACK or (of_partitions == of_partitions[0]).all():
            return None
        return of_partitions, _array(of_members), len(numbers)


def _array(numbers: list[int]) -> Int32s:
    return np.array(numbers, dtype=np.int32)
