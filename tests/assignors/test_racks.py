"""The assignors that look at racks: as even as those that do not, as near as that allows (KIP-881's aim)."""

from __future__ import annotations

import random
from itertools import product

import pytest

from actors.assignors.spec import Assignment, AssignmentSpec
from actors.coordinator.ground import partitions
from tests.assignors.oracle import (
    Racks,
    assigned,
    check_even,
    check_valid,
    matches,
    member,
    most_matches,
    moves,
    pairs,
    random_spec,
    spec_of,
    tid,
    with_targets,
)


def with_racks(rng: random.Random, spec: AssignmentSpec) -> tuple[AssignmentSpec, Racks]:
    """Give members one of two racks or none, and partitions one of three racks or none."""
    members = tuple(one._replace(rack_id=rng.choice(["a", "b", None])) for one in spec.members)
    slots = [(topic, p) for topic, count in spec.partition_counts.items() for p in range(count)]
    return spec._replace(members=members), {slot: rng.choice(["a", "b", "c", None]) for slot in slots}


def loads(assignment: Assignment) -> dict[str, int]:
    return {name: partitions.count(target) for name, target in assignment.items()}


def sizes(assignment: Assignment) -> dict[str, dict[bytes, int]]:
    return {
        name: {topic: len(packed) // 4 for topic, packed in target} for name, target in assignment.items()
    }


@pytest.mark.parametrize("seed", range(150))
def test_uniform_with_racks(seed: int) -> None:
    """An assignment is as even as without racks, has as many partitions in their rack as can be with that,
    and stays."""
    rng = random.Random(seed)
    spec, racks = with_racks(rng, random_spec(rng, alike=seed % 2 == 0))
    assignment = assigned("uniform-rack", spec, racks)
    check_valid(spec, assignment)
    check_even(spec, assignment)
    assert loads(assignment) == loads(assigned("uniform", spec))
    assert matches(spec, assignment, racks) == most_matches(spec, assignment, racks)
    shuffled = spec._replace(members=tuple(rng.sample(spec.members, len(spec.members))))
    assert assigned("uniform-rack", shuffled, racks) == assignment
    settled = with_targets(spec, assignment)
    assert assigned("uniform-rack", settled, racks) == assignment


@pytest.mark.parametrize("seed", range(150))
def test_range_with_racks(seed: int) -> None:
    """Everybody has as many partitions of each topic as without racks, never fewer in their rack, and
    co-partitioned as without."""
    rng = random.Random(seed)
    spec, racks = with_racks(rng, random_spec(rng, alike=seed % 2 == 0, counts_max=4))
    assignment, plain = assigned("range-rack", spec, racks), assigned("range", spec)
    check_valid(spec, assignment)
    assert sizes(assignment) == sizes(plain)
    assert matches(spec, assignment, racks) >= matches(spec, plain, racks)
    subscribers = {
        topic: tuple(one.member_id for one in spec.members if topic in one.topic_ids)
        for topic in spec.partition_counts
    }
    for one, other in product(spec.partition_counts, repeat=2):
        if (
            subscribers[one] == subscribers[other]
            and spec.partition_counts[one] == spec.partition_counts[other]
        ):
            assert {name: dict(target).get(one) for name, target in assignment.items()} == {
                name: dict(target).get(other) for name, target in assignment.items()
            }


def test_small_groups_exhaustively() -> None:
    """Every rack of 3 members and 3 partitions of one topic, with every present owner."""
    slots = [(tid(0), p) for p in range(3)]
    for places in product(["a", "b", None], repeat=3):
        for of_partitions in product(["a", "b"], repeat=3):
            racks = dict(zip(slots, of_partitions, strict=True))
            for had in product(range(3), repeat=3):
                members = [member(f"m{m}", [0], [(0, p) for p in range(3) if had[p] == m]) for m in range(3)]
                placed = [one._replace(rack_id=rack) for one, rack in zip(members, places, strict=True)]
                spec = spec_of(placed, [3])
                assignment = assigned("uniform-rack", spec, racks)
                check_valid(spec, assignment)
                assert set(loads(assignment).values()) == {1}
                assert matches(spec, assignment, racks) == most_matches(spec, assignment, racks)


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_racks_that_make_no_difference_change_nothing(name: str) -> None:
    """No member has one, or none that a partition is in, or all partitions are in one."""
    rng = random.Random(name)
    for _ in range(20):
        spec = random_spec(rng, alike=False)
        plain = assigned(name, spec)
        everywhere, racks = with_racks(rng, spec)
        assert assigned(f"{name}-rack", spec, racks) == plain
        assert assigned(f"{name}-rack", everywhere, dict.fromkeys(racks, "a")) == plain
        elsewhere = [one._replace(rack_id="moon") for one in spec.members]
        assert assigned(f"{name}-rack", spec._replace(members=tuple(elsewhere)), racks) == plain


def test_a_partition_moves_only_to_get_into_its_rack() -> None:
    """Two members had each other's partitions: both swap, and what was right stays."""
    members = [
        member("a", [0], [(0, 0), (0, 1), (0, 2)], rack="east"),
        member("b", [0], [(0, 3), (0, 4), (0, 5)], rack="west"),
    ]
    racks = {(tid(0), p): "west" if p in (0, 4, 5) else "east" for p in range(6)}
    spec = spec_of(members, [6])
    assignment = assigned("uniform-rack", spec, racks)
    assert moves(spec, assignment) == 2
    assert [p for _, p in pairs(assignment["a"])] == [1, 2, 3]
    assert matches(spec, assignment, racks) == 6


def test_lists_and_arrays_of_larger_groups() -> None:
    """`assigned` compares the assignment by lists with the one by arrays."""
    rng = random.Random(5)
    for number in range(30):
        spec, racks = with_racks(rng, random_spec(rng, alike=number % 2 == 0, members=20, counts_max=60))
        for name in ("uniform-rack", "range-rack"):
            check_valid(spec, assigned(name, spec, racks))
