"""An assignor that lets members keep what they have, as far as that is fair. It runs on either side.

Fair is who has as many partitions as its weight says; here all weights are alike, and `weighted` tells them
apart. Members may subscribe to different topics: a partition goes only to who reads its topic. The work grows
with partitions times members; for thousands of either, the server's own `uniform` is the better choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.assignors.spec import AssignmentSpec, MemberSpec

Partition = tuple[bytes, int]
"""Topic id and number."""
Weight = Callable[[MemberSpec], int]
"""Returns how much a member takes beside the others, at least 1."""


class Sticky:
    """It gives all members alike, and lets them keep what they have (A11)."""

    name = "sticky"
    minimum_version = maximum_version = version = 0
    """The versions of what members tell this assignor, which is nothing."""
    metadata = b""

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, list[int]]]:
        return balanced(spec, _alike)


def balanced(spec: AssignmentSpec, weight_of: Weight) -> dict[str, dict[bytes, list[int]]]:
    """Return member id -> topic id -> partitions: what members have stays theirs, unless another one that
    reads the topic has less than its share."""
    plan = _Plan(spec, weight_of)
    plan.keep()
    plan.give_out()
    plan.even_out()
    return plan.assignment()


class _Plan:
    """An assignment in the making. All that it decides follows from the members alone, not from their
    order."""

    def __init__(self, spec: AssignmentSpec, weight_of: Weight) -> None:
        self._spec = spec
        self._members = {each.member_id: each for each in sorted(spec.members, key=_by_id)}
        self._weights = {member_id: max(weight_of(each), 1) for member_id, each in self._members.items()}
        self._readers = {
            topic_id: [member_id for member_id, each in self._members.items() if topic_id in each.topic_ids]
            for topic_id in spec.partition_counts
        }
        self._given: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in self._members}
        self._loads = dict.fromkeys(self._members, 0)
        self._taken: set[Partition] = set()

    def keep(self) -> None:
        """Leave members what they have, if it exists, they read it, and nobody before them has it."""
        counts = self._spec.partition_counts
        for member_id, member in self._members.items():
            for topic_id, numbers in member.target_partitions.items():
                for number in numbers:
                    is_there = topic_id in member.topic_ids and 0 <= number < counts.get(topic_id, 0)
                    if is_there and (topic_id, number) not in self._taken:
                        self._give(member_id, topic_id, number)

    def give_out(self) -> None:
        """Give each partition that nobody has to who has the least of its share."""
        for topic_id, count in sorted(self._spec.partition_counts.items()):
            for number in range(count):
                if self._readers[topic_id] and (topic_id, number) not in self._taken:
                    self._give(self._neediest(topic_id), topic_id, number)

    def even_out(self) -> None:
        """Move partitions one by one as long as that brings a giver and a taker nearer to their shares."""
        while self._moves_one():
            pass

    def assignment(self) -> dict[str, dict[bytes, list[int]]]:
        return self._given

    def _moves_one(self) -> bool:
        by_load = sorted(self._members, key=lambda each: (-self._loads[each] / self._weights[each], each))
        for giver in by_load:
            for topic_id, numbers in sorted(self._given[giver].items()):
                taker = self._neediest(topic_id)
                if numbers and self._gains(giver, taker):
                    self._loads[giver] -= 1
                    self._give(taker, topic_id, numbers.pop())
                    return True
        return False

    def _gains(self, giver: str, taker: str) -> bool:
        """Whether the taker, with one partition more, has less of its share than the giver has now."""
        grown = (self._loads[taker] + 1) * self._weights[giver]
        return taker != giver and grown < self._loads[giver] * self._weights[taker]

    def _neediest(self, topic_id: bytes) -> str:
        """Return the reader that has least of its share, with one partition more."""
        return min(
            self._readers[topic_id], key=lambda each: ((self._loads[each] + 1) / self._weights[each], each)
        )

    def _give(self, member_id: str, topic_id: bytes, number: int) -> None:
        self._given[member_id].setdefault(topic_id, []).append(number)
        self._loads[member_id] += 1
        self._taken.add((topic_id, number))


def _alike(member: MemberSpec) -> int:
    return 1


def _by_id(member: MemberSpec) -> str:
    return member.member_id
