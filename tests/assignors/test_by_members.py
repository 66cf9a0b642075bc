"""The assignors that members compute with: sticky, and weighted by capacity (A4, A11)."""

from __future__ import annotations

import random
from struct import pack

import pytest

from actors.assignors.by_members.sticky import Sticky
from actors.assignors.by_members.weighted import CapacityWeighted, capacity
from actors.assignors.registry import PlugIn
from actors.assignors.spec import AssignmentSpec, MemberSpec

TOPIC, OTHER = bytes([1]) * 16, bytes([2]) * 16


def member(
    name: str, has: tuple[int, ...] = (), told: bytes = b"", topics: tuple[bytes, ...] = (TOPIC,)
) -> MemberSpec:
    target = ((TOPIC, pack(f">{len(has)}i", *has)),) if has else ()
    return MemberSpec(name, None, frozenset(topics), target, user_data=told)


def sizes(assignor: Sticky | CapacityWeighted, *members: MemberSpec, partitions: int = 12) -> list[int]:
    given = assignor.assign(AssignmentSpec(members, {TOPIC: partitions}))
    assert sorted(number for each in given.values() for number in each.get(TOPIC, ())) == [*range(partitions)]
    return [len(given[each.member_id].get(TOPIC, ())) for each in members]


def test_a_newcomer_gets_its_share_and_the_others_keep_the_rest() -> None:
    first, second = member("a", tuple(range(6))), member("b", tuple(range(6, 12)))
    given = Sticky().assign(AssignmentSpec((first, second, member("c")), {TOPIC: 12}))
    assert [len(given[name][TOPIC]) for name in "abc"] == [4, 4, 4]
    assert set(given["a"][TOPIC]) < set(range(6))
    assert set(given["b"][TOPIC]) < set(range(6, 12))


def test_nothing_moves_where_all_is_fair() -> None:
    members = (member("a", (0, 3)), member("b", (1,)), member("c", (2, 4)))
    given = Sticky().assign(AssignmentSpec(members, {TOPIC: 5}))
    assert {name: sorted(given[name][TOPIC]) for name in "abc"} == {"a": [0, 3], "b": [1], "c": [2, 4]}


def test_capacity_says_how_much_each_gets() -> None:
    told = [pack(">i", each) for each in (1, 2, 3)]
    assert sizes(
        CapacityWeighted(), *(member(name, (), each) for name, each in zip("abc", told, strict=True))
    ) == [
        2,
        4,
        6,
    ]


def test_a_member_whose_capacity_grows_takes_from_the_others() -> None:
    small, grown = member("a", tuple(range(6))), member("b", tuple(range(6, 12)), pack(">i", 3))
    assert sizes(CapacityWeighted(), small, grown) == [3, 9]


@pytest.mark.parametrize("told", [b"", b"\0", pack(">i", 0), pack(">i", -7), bytes(8)])
def test_a_capacity_that_makes_no_sense_counts_as_one(told: bytes) -> None:
    assert capacity(member("a", (), told)) == 1


def test_a_partition_goes_only_to_who_reads_its_topic() -> None:
    members = (member("a", topics=(TOPIC,)), member("b", topics=(TOPIC, OTHER)), member("c", topics=()))
    given = Sticky().assign(AssignmentSpec(members, {TOPIC: 4, OTHER: 2}))
    assert {name: {topic: len(each) for topic, each in given[name].items()} for name in "abc"} == {
        "a": {TOPIC: 3},
        "b": {OTHER: 2, TOPIC: 1},
        "c": {},
    }


def test_the_same_class_is_a_plug_in_of_the_server() -> None:
    """Whatever the group was before, the server's check of plug-ins has nothing to say."""
    chance = random.Random(1)
    plug_ins = [
        PlugIn(f"actors.assignors.by_members.{name}")
        for name in ("sticky:Sticky", "weighted:CapacityWeighted")
    ]
    for _ in range(50):
        members = tuple(
            member(
                f"m{place}",
                tuple(sorted(chance.sample(range(10), chance.randint(0, 5)))),
                pack(">i", chance.randint(-1, 5)),
                tuple(each for each in (TOPIC, OTHER) if chance.random() < 0.8),
            )
            for place in range(chance.randint(1, 6))
        )
        spec = AssignmentSpec(members, {TOPIC: chance.randint(1, 8), OTHER: chance.randint(1, 8)})
        for plug_in in plug_ins:
            assert plug_in.assign(spec).keys() == {each.member_id for each in members}
