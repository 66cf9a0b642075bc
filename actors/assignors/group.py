"""A consumer group as the assignors see it, whichever way it is kept: in `arrays`, or in `lists` if it is
small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from actors.assignors.compiled import Kernels
from actors.assignors.kernels import Ints
from actors.assignors.spec import Assignment, MemberSpec
from actors.assignors.topic_sets import RacksOf, TopicSet


class Group(Protocol):
    """A group whose members have slots, which are small numbers. Partition p of the topic at place t is
    number `starts[t] + p`."""

    @property
    def kernels(self) -> Kernels:
        """Return the kernels that take what this group is made of."""

    @property
    def members(self) -> Sequence[MemberSpec]:
        """Return the member of each slot."""

    @property
    def slots(self) -> Mapping[str, int]:
        """Return member id -> slot."""

    @property
    def untold(self) -> set[int]:
        """Return the slots of members that were never given a target, not even an empty one."""

    @property
    def topic_ids(self) -> Sequence[bytes]:
        """Return the ids of the subscribed topics, ascending."""

    @property
    def starts(self) -> Ints:
        """Return the number of each topic's first partition, and at the end the number of all partitions
        (i4[T + 1])."""

    @property
    def topic_sets(self) -> Sequence[TopicSet]: ...

    @property
    def is_simple(self) -> bool:
        """Return whether the group is simple as `topic_sets.Layout` says."""

    @property
    def odd(self) -> Iterable[int]:
        """Return the slots of members whose target may say more than `before`: topics or partitions that do
        not exist, or what another member has."""

    def subscribers(self) -> list[Ints]:
        """Return the slots of each topic set's subscribers, in Kafka's order of members."""

    def before(self) -> Ints:
        """Return who has each partition by the targets so far (i4[P]), -1 if nobody has it; if several do,
        the first in Kafka's order. It is to be read only, and good until asked again."""

    def copy(self, before: Ints) -> Ints: ...

    def scratch(self, use: str, each: int = 1) -> Ints:
        """Return an array of i4[each * P] of no particular content, the same one for the same use."""

    def racks(self, racks_of: RacksOf) -> tuple[Ints, Ints, int] | None:
        """Return the racks of partitions (i4[P]), the racks of slots (i4[M]), and how many racks there are;
        None if they make no difference, because no member is in one of them, or all partitions are in one."""

    def expect(self, changes: Assignment, owner: Ints) -> None:
        """Expect `owner` (i4[P], complete): `before` as it will be once the members of `changes` have their
        targets."""
