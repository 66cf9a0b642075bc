"""The uniform assignor (M10), which is as even as the subscriptions allow, and sticky.

In homogeneous groups, member loads differ by at most one, and the number of moved partitions is the smallest
possible. In heterogeneous groups, no single partition can be moved to make two loads more even; evenness
comes before stickiness, as in Kafka. With racks, every member has as many partitions of each set of topics
with the same subscribers as without, and as many of them as then can be are in their member's rack; that
comes before stickiness too.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.assignors.group import Group
from actors.assignors.kernels import Ints
from actors.assignors.targets import Targets
from actors.assignors.topic_sets import RacksOf

ROUNDS_MAX = 100
"""How often one set of topics after the other is levelled. Few groups need more than three rounds; what is
not level after so many differs by little, and is levelled further by the next assignment."""


def assign(group: Group, racks_of: RacksOf | None = None) -> Targets:
    """Assign the group. `racks_of` gives the racks of a topic's partitions; without it racks do not count."""
    before = group.before()
    work = _Work(group, before)
    work.level()
    racks = None if racks_of is None else group.racks(racks_of)
    if racks is not None:
        work.match_racks(*racks)
    targets = Targets(group, work.owner, work.load)
    targets.sort()
    targets.compare(before)
    return targets


class _Share(NamedTuple):
    """A set of topics and the slots of its subscribers."""

    number: int
    partitions: int
    begins: Ints
    ends: Ints
    members: Ints


class _Work:
    def __init__(self, group: Group, before: Ints) -> None:
        slots = len(group.members)
        self.kernels = group.kernels
        self.owner = group.copy(before)
        self.before = before
        self.mark = self.kernels.full(slots, -1)
        self.kept, self.room, self.load, self.nothing = (self.kernels.full(slots, 0) for _ in range(4))
        self.shares = [
            _Share(number, topic_set.partitions, topic_set.begins, topic_set.ends, members)
            for number, (topic_set, members) in enumerate(
                zip(group.topic_sets, group.subscribers(), strict=True)
            )
        ]
        # Topics that burden their subscribers most come first: those with choice fill the gaps.
        self.shares.sort(key=lambda s: (-s.partitions / len(s.members), len(s.members), s.number))

    def level(self) -> None:
        free = []
        for share in self.shares:
            free.append(self._count(share))
            self.kernels.add_kept(share.members, self.kept, self.load)
        if len(self.shares) == 1:
            self._fill(self.shares[0], 0)
            return
        # Free partitions level loads without a move, so they come before anything is taken from a member.
        for share, count in zip(self.shares, free, strict=True):
            if count:
                self._give_free(share, count)
        for number in range(1 if any(free) else 0, ROUNDS_MAX):
            changes = False
            for share in self.shares:
                self._count(share)
                changes = self._fill(share, number) or changes
            if not changes:
                return

    def _count(self, share: _Share) -> int:
        """Count what each subscriber has of the share, and return how many of its partitions are free."""
        free: int = self.kernels.count_kept(
            self.owner, share.begins, share.ends, share.members, share.number, self.mark, self.kept
        )
        return free

    def _give_free(self, share: _Share, free: int) -> None:
        """Give the share's free partitions out, and take none from any member."""
        kernels, members, kept, room = self.kernels, share.members, self.kept, self.room
        self._count(share)
        kernels.allow(members, free, self.nothing, self.load, room)
        kernels.add_kept(members, kept, room)
        kernels.book(members, kept, self.load, room)
        kernels.fill(self.owner, share.begins, share.ends, members, kept, room, free)

    def _fill(self, share: _Share, round_number: int) -> bool:
        """Give the share's partitions out anew, as evenly as can be. Return whether anything has changed."""
        kernels, kept, room = self.kernels, self.kept, self.room
        number, partitions, begins, ends, members = share
        change = kernels.allow(members, partitions, kept, self.load, room)
        if change == 0:
            return False
        owner, before = self.owner, self.before
        free = kernels.book(members, kept, self.load, room)
        if change == 2:
            kernels.release(owner, before, begins, ends, members, kept, room, round_number)
        if free and round_number:
            # Now and then a later round gives room again to a member that lost a partition in an earlier one.
            free -= kernels.give_back(owner, before, begins, ends, number, self.mark, kept, room)
        kernels.fill(owner, begins, ends, members, kept, room, free)
        return True

    def match_racks(self, rack: Ints, member_rack: Ints, racks: int) -> None:
        kernels = self.kernels
        for share in self.shares:
            spans = share.begins, share.ends, share.members
            loose = kernels.match_racks(
                self.owner, *spans, rack, member_rack, self.kept, self.room, kernels.full(racks, 0)
            )
            if loose:
                kernels.give_loose(self.owner, self.before, *spans, self.kept, self.room)
