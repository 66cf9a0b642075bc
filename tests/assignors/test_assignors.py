"""The uniform and range assignors against plain twins and their promises: rows M7, M9, M10, A3."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.assignors import compiled, kernels
from actors.assignors.arrays import FEW_CLASSES, GroupArrays
from actors.assignors.lists import GroupLists
from actors.assignors.registry import OWN
from actors.assignors.spec import AssignmentSpec
from actors.coordinator.ground import partitions
from tests.assignors.oracle import (
    assigned,
    check_even,
    check_valid,
    fewest_moves,
    member,
    moves,
    pairs,
    random_spec,
    range_twin,
    spec_of,
    tid,
    uniform_twin,
    with_targets,
)

KAFKAS = ("uniform", "range")


def check_against_twins(spec: AssignmentSpec) -> None:
    uniform = assigned("uniform", spec)
    assert uniform == uniform_twin(spec)
    check_valid(spec, uniform)
    check_even(spec, uniform)
    assert assigned("range", spec) == range_twin(spec)


def test_the_registry_knows_kafkas_names() -> None:
    """This is rule A3."""
    assert list(OWN)[:2] == ["uniform", "range"]


@pytest.mark.parametrize("counts", [[2, 2], [1, 1, 2], [3]])
def test_small_homogeneous_groups_exhaustively(counts: list[int]) -> None:
    """M10: every way in which up to 4 partitions of 1 to 3 topics can be had by up to 3 members or nobody."""
    slots = [(topic, p) for topic, count in enumerate(counts) for p in range(count)]
    for had in product(range(-1, 3), repeat=len(slots)):
        for size in (1, 2, 3):
            targets = [[slot for slot, m in zip(slots, had, strict=True) if m == one] for one in range(size)]
            spec = spec_of(
                [member(f"m{m}", list(range(len(counts))), targets[m]) for m in range(size)], counts
            )
            check_against_twins(spec)
            assert moves(spec, assigned("uniform", spec)) == fewest_moves(spec)


@pytest.mark.parametrize(("counts", "size"), [([2, 1], 3), ([3, 2], 2), ([1, 1, 1], 2), ([2, 1, 1], 2)])
def test_small_heterogeneous_groups_exhaustively(counts: list[int], size: int) -> None:
    """M10: every subscription of 2 or 3 members to 2 or 3 topics, with every owner of each partition."""
    topics = range(len(counts))
    slots = [(topic, p) for topic, count in enumerate(counts) for p in range(count)]
    every = [[topic for topic in topics if number >> topic & 1] for number in range(1 << len(counts))]
    for subscriptions in product(every, repeat=size):
        for had in product(range(size), repeat=len(slots)):
            targets = [[slot for slot, m in zip(slots, had, strict=True) if m == one] for one in range(size)]
            members = [member(f"m{m}", subscriptions[m], targets[m]) for m in range(size)]
            check_against_twins(spec_of(members, counts))


@pytest.mark.parametrize("seed", range(100))
def test_random_homogeneous_groups(seed: int) -> None:
    """M10: as the twin has it, and no move more than there must be."""
    spec = random_spec(random.Random(seed), alike=True)
    check_against_twins(spec)
    assert moves(spec, assigned("uniform", spec)) == (fewest_moves(spec) if spec.partition_counts else 0)


@pytest.mark.parametrize("seed", range(200))
def test_random_heterogeneous_groups(seed: int) -> None:
    """This is rule M10."""
    check_against_twins(random_spec(random.Random(seed), alike=False))


@pytest.mark.parametrize("seed", range(5))
def test_groups_where_everybody_subscribes_to_something_else(seed: int) -> None:
    """This is rule M10."""
    rng = random.Random(seed)
    counts = [rng.randrange(1, 9) for _ in range(8)]
    members = [member(f"m{m}", rng.sample(range(8), rng.randrange(1, 8))) for m in range(60)]
    spec = spec_of(members, counts)
    assert sum(len(each.classes) for each in GroupArrays.of(spec).topic_sets) > FEW_CLASSES
    check_against_twins(spec)


@st.composite
def groups(draw: st.DrawFn) -> AssignmentSpec:
    counts = draw(st.lists(st.integers(0, 7), min_size=1, max_size=4))
    topics = st.lists(st.sampled_from(range(len(counts))), unique=True)
    # Some of what is had does not exist (any more), or is not subscribed to.
    slots = [(topic, p) for topic in range(len(counts)) for p in range(counts[topic] + 1)]
    owners = draw(st.lists(st.integers(-1, 6), min_size=len(slots), max_size=len(slots)))
    members = []
    for number in range(draw(st.integers(1, 6))):
        target = [slot for slot, owner in zip(slots, owners, strict=True) if owner == number]
        more = {"instance": f"i{9 - number}"} if draw(st.booleans()) else {}
        members.append(member(f"m{number}", draw(topics), target, **more))
    return spec_of(members, counts)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(groups(), st.randoms(use_true_random=False))
def test_what_every_assignment_promises(spec: AssignmentSpec, chance: random.Random) -> None:
    """M9, M10: valid and complete, as even as can be, settled, and the same in whatever order members came;
    what is written is what changes."""
    for name in KAFKAS:
        assignment = assigned(name, spec)
        check_valid(spec, assignment)
        before = {one.member_id: one.target for one in spec.members}
        changed = {m: mine for m, mine in assignment.items() if mine != before[m]}
        for group in (GroupLists.of(spec), GroupArrays.of(spec)):
            assert OWN[name].assign(group, None).changes() == changed
        shuffled = spec._replace(members=tuple(chance.sample(spec.members, len(spec.members))))
        assert assigned(name, shuffled) == assignment
        assert assigned(name, with_targets(spec, assignment)) == assignment
    uniform = assigned("uniform", spec)
    check_even(spec, uniform)
    assert moves(spec, uniform) <= moves(spec, uniform_twin(spec))


@pytest.mark.parametrize("seed", range(100))
def test_random_range_groups(seed: int) -> None:
    """M10: per topic within one."""
    spec = random_spec(random.Random(seed), alike=seed % 2 == 0)
    assignment = assigned("range", spec)
    for topic, count in spec.partition_counts.items():
        names = [one.member_id for one in spec.members if topic in one.topic_ids]
        sizes = [sum(t == topic for t, _ in pairs(assignment[name])) for name in names]
        assert max(sizes) <= min(sizes) + 1
        assert sum(sizes) == count


def test_range_gives_equal_partitions_of_equal_topics_to_one_member() -> None:
    """M10: also when a member leaves and when a topic comes in."""
    members = [member(f"m{m}", [0, 1]) for m in range(3)]
    spec = spec_of(members, [7, 7])
    spec = with_targets(spec, assigned("range", spec))
    spec = spec_of(
        [one._replace(topic_ids=frozenset(map(tid, range(3)))) for one in spec.members[1:]], [7] * 3
    )
    for target in assigned("range", spec).values():
        assert len({packed for _, packed in target}) == 1


def test_a_newcomer_takes_only_its_share() -> None:
    """M10: with 100 members of 10 partitions, one more moves 9 partitions and nobody else's."""
    spec = spec_of([member(f"m{m:03}", [0, 1]) for m in range(100)], [500, 500])
    spec = with_targets(spec, assigned("uniform", spec))
    grown = AssignmentSpec((*spec.members, member("newcomer", [0, 1])), spec.partition_counts)
    targets = OWN["uniform"].assign(GroupArrays.of(grown), None)
    assert moves(grown, targets.assignment()) == 9
    assert len(targets.changes()) == 10


def test_one_who_had_everything_gives_half_of_it_away_at_once() -> None:
    """M10: two sets of topics, one move for each partition too many, however many they are."""
    everything = [(0, p) for p in range(4_000)]
    spec = spec_of([member("a", [0], everything), member("b", [0, 1])], [4_000, 10])
    assignment = assigned("uniform", spec)
    check_even(spec, assignment)
    assert moves(spec, assignment) == 1_995


def test_odd_targets_do_no_harm() -> None:
    """M9, M10: targets of topics gone, of partitions gone, and claimed twice."""
    spec = spec_of(
        [member("a", [0], [(0, 1), (0, 9), (5, 0)]), member("b", [0], [(0, 1), (0, 2)]), member("c", [])],
        [4],
    )
    for name in KAFKAS:
        assignment = assigned(name, spec)
        check_valid(spec, assignment)
        assert (tid(0), 1) in pairs(assignment["a"])
        assert assignment["c"] == ()
        for group in (GroupLists.of(spec), GroupArrays.of(spec)):
            assert OWN[name].assign(group, None).changes().keys() == {"a", "b"}


def test_runs_end_at_the_same_place_by_blocks() -> None:
    """Compiled kernels call `run_end_by_blocks` in place of the plain `run_end`."""
    rng = random.Random(3)
    for _ in range(300):
        numbers = [n for n in range(rng.randrange(1, 4)) for _ in range(rng.randrange(1, 60))]
        first = rng.randrange(len(numbers))
        end = rng.randrange(first + 1, len(numbers) + 1)
        assert kernels.run_end_by_blocks(numbers, first, end) == kernels.run_end(numbers, first, end)


@pytest.mark.parametrize("alike", [True, False])
def test_lists_and_arrays_of_larger_groups(alike: bool) -> None:
    """`assigned` compares the two: with runs long enough for blocks, and more members than partitions."""
    for seed in range(40):
        spec = random_spec(random.Random(seed), alike=alike, members=20, counts_max=60)
        for name in KAFKAS:
            check_valid(spec, assigned(name, spec))


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is then compiled for this process alone."""
    compile_kernel = compiled._compile

    def failing(kernel: object, *, cache: bool) -> object:
        if cache:
            raise RuntimeError("no locator available")
        return compile_kernel(kernel, cache=False)

    monkeypatch.setattr(compiled, "_compile", failing)
    spec = spec_of([member("a", [0]), member("b", [0])], [4])
    monkeypatch.setattr(compiled.COMPILED, "fill", compiled._Compiled(compiled.PLAIN.fill))
    assert assigned("uniform", spec) == uniform_twin(spec)


def test_a_small_group_costs_no_import() -> None:
    """An actor pays for numpy and numba only when it leads a big group."""
    program = (
        "import sys, actors.leader.offsets_partition\n"
        "from actors.assignors.lists import GroupLists\n"
        "from actors.assignors.registry import OWN\n"
        "from actors.assignors.spec import MemberSpec\n"
        "group = GroupLists([MemberSpec('a', None, frozenset([b'topic']), ())], lambda _: 100)\n"
        "assert len(OWN['uniform'].assign(group, None).changes()['a'][0][1]) == 400\n"
        "sys.exit('numpy' in sys.modules or 'numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_big_groups() -> None:
    """1,000 members, 100 topics, 10,000 partitions, compiled: full, then one member leaves."""
    members = [member(f"m{m:04}", list(range(100))) for m in range(1_000)]
    spec = spec_of(members, [100] * 100)
    spec = with_targets(spec, assigned("uniform", spec))
    assert {partitions.count(one.target) for one in spec.members} == {10}
    left = AssignmentSpec(spec.members[1:], spec.partition_counts)
    assert moves(left, assigned("uniform", left)) == 0
