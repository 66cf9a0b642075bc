"""A consumer group as the assignors see it, whichever way it is kept: `arrays`, or `lists` if it is small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from actors.assignors.compiled import Kernels
from actors.assignors.kernels import Ints
from actors.assignors.spec import Assignment, MemberSpec
from actors.assignors.topic_sets import RacksOf, TopicSet


class Group(Protocol):
    """A member has a slot, a small number. Partition p of the topic at place t is number `starts[t] + p`."""

    @property
    def kernels(self) -> Kernels:
        """Those that take what is in here."""

    @property
    def members(self) -> Sequence[MemberSpec]:
        """By slot."""

    @property
    def slots(self) -> Mapping[str, int]:
        """By member id."""

    @property
    def untold(self) -> set[int]:
        """Slots of members that were never given a target, not even an empty one."""

    @property
    def topic_ids(self) -> Sequence[bytes]:
        """Subscribed topics, ascending."""

    @property
    def starts(self) -> Ints:
        """i4[T + 1]."""

    @property
    def topic_sets(self) -> Sequence[TopicSet]: ...

    @property
    def is_simple(self) -> bool:
        """As in `topic_sets.Layout`."""

    @property
    def odd(self) -> Iterable[int]:
        """Slots of members whose target may say more than `before`: of topics or partitions that are not
        there, or what another has."""

    def subscribers(self) -> list[Ints]:
        """By topic set: its subscribers' slots, in Kafka's order of members."""

    def before(self) -> Ints:
        """i4[P]: who has each partition by the targets so far, -1 where nobody has it; of several the first
        in Kafka's order. To be read only, and good until asked again."""

    def copy(self, before: Ints) -> Ints: ...

    def scratch(self, use: str, each: int = 1) -> Ints:
        """i4[each * P], of no particular content, and the same one for the same use."""

    def racks(self, racks_of: RacksOf) -> tuple[Ints, Ints, int] | None:
        """(i4[P] of partitions, i4[M] of slots, how many); None if they make no difference: no member is in
        one of them, or all partitions are in one."""

    def expect(self, changes: Assignment, owner: Ints) -> None:
        """`owner` (i4[P], complete): `before` as it will be once those of `changes` have their targets."""
