"""The uniform and range assignors against plain twins and their promises: rows M7, M9, M10, A3."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from actors.assignors import kernels, uniform
from actors.assignors import range as range_assignor
from actors.assignors.registry import ASSIGNORS
from actors.assignors.spec import AssignmentSpec
from actors.coordinator import partitions
from tests.assignors.oracle import (
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


def test_the_registry_knows_kafkas_names() -> None:
    """A3."""
    assert set(ASSIGNORS) == {"uniform", "range"}


def test_small_homogeneous_groups_exhaustively() -> None:
    """M10: every way in which 4 partitions of 2 topics can be had by up to 3 members or nobody."""
    for had in product(range(-1, 3), repeat=4):
        for size in (1, 2, 3):
            target = [[(p // 2, p % 2) for p in range(4) if had[p] == m] for m in range(size)]
            spec = spec_of([member(f"m{m}", [0, 1], target[m]) for m in range(size)], [2, 2])
            assignment = uniform.assign(spec)
            assert assignment == uniform_twin(spec)
            check_valid(spec, assignment)
            check_even(spec, assignment)
            assert moves(spec, assignment) == fewest_moves(spec)
            assert range_assignor.assign(spec) == range_twin(spec)


def test_small_heterogeneous_groups_exhaustively() -> None:
    """M10: every subscription of 3 members to 2 topics, with every present owner of 3 partitions."""
    topics_of = [[], [0], [1], [0, 1]]
    for subscriptions in product(topics_of, repeat=3):
        for had in product(range(3), repeat=3):
            target = [[(p // 2, p % 2) for p in range(3) if had[p] == m] for m in range(3)]
            spec = spec_of([member(f"m{m}", subscriptions[m], target[m]) for m in range(3)], [2, 1])
            for assign in ASSIGNORS.values():
                check_valid(spec, assign(spec))
            check_even(spec, uniform.assign(spec))
            assert range_assignor.assign(spec) == range_twin(spec)


@pytest.mark.parametrize("seed", range(150))
def test_random_homogeneous_groups(seed: int) -> None:
    """M10: valid, even, as few moves as possible, the same whatever the order of members."""
    rng = random.Random(seed)
    spec = random_spec(rng, alike=True)
    assignment = uniform.assign(spec)
    check_valid(spec, assignment)
    check_even(spec, assignment)
    assert assignment == uniform_twin(spec)
    assert moves(spec, assignment) == (fewest_moves(spec) if spec.partition_counts else 0)
    shuffled = spec._replace(members=tuple(rng.sample(spec.members, len(spec.members))))
    assert uniform.assign(shuffled) == assignment
    assert uniform.assign(with_targets(spec, assignment)) == assignment


@pytest.mark.parametrize("seed", range(150))
def test_random_heterogeneous_groups(seed: int) -> None:
    """M10: valid, even as far as subscriptions allow, settled: a second run moves nothing."""
    rng = random.Random(seed)
    spec = random_spec(rng, alike=False)
    assignment = uniform.assign(spec)
    check_valid(spec, assignment)
    check_even(spec, assignment)
    shuffled = spec._replace(members=tuple(rng.sample(spec.members, len(spec.members))))
    assert uniform.assign(shuffled) == assignment
    assert uniform.assign(with_targets(spec, assignment)) == assignment


@pytest.mark.parametrize("seed", range(150))
def test_random_range_groups(seed: int) -> None:
    """M10: per topic within one, co-partitioned, settled, as the twin has it."""
    rng = random.Random(seed)
    spec = random_spec(rng, alike=seed % 2 == 0)
    assignment = range_assignor.assign(spec)
    check_valid(spec, assignment)
    assert assignment == range_twin(spec)
    assert range_assignor.assign(with_targets(spec, assignment)) == assignment
    for topic, count in spec.partition_counts.items():
        names = [one.member_id for one in spec.members if topic in one.topic_ids]
        sizes = [sum(t == topic for t, _ in pairs(assignment[name])) for name in names]
        assert max(sizes) <= min(sizes) + 1
        assert sum(sizes) == count


def test_range_gives_equal_partitions_of_equal_topics_to_one_member() -> None:
    """M10: also when a member leaves and when a topic comes in."""
    members = [member(f"m{m}", [0, 1]) for m in range(3)]
    spec = spec_of(members, [7, 7])
    first = range_assignor.assign(spec)
    spec = with_targets(spec, first)
    spec = spec_of(
        [one._replace(topic_ids=frozenset(map(tid, range(3)))) for one in spec.members[1:]], [7] * 3
    )
    second = range_assignor.assign(spec)
    for target in second.values():
        assert len({packed for _, packed in target}) == 1
    assert moves(spec, second) == 0


def test_a_newcomer_takes_only_its_share() -> None:
    """M10: with 100 members of 10 partitions, one more moves 9 partitions and nobody else's."""
    spec = spec_of([member(f"m{m:03}", [0, 1]) for m in range(100)], [500, 500])
    spec = with_targets(spec, uniform.assign(spec))
    grown = AssignmentSpec((*spec.members, member("newcomer", [0, 1])), spec.partition_counts)
    assignment = uniform.assign(grown)
    assert moves(grown, assignment) == 9
    kept = [one.member_id for one in spec.members if assignment[one.member_id] is one.target]
    assert len(kept) == 91


def test_odd_targets_do_no_harm() -> None:
    """M9, M10: targets of topics gone, of partitions gone, and claimed twice."""
    spec = spec_of(
        [member("a", [0], [(0, 1), (0, 9), (5, 0)]), member("b", [0], [(0, 1), (0, 2)]), member("c", [])],
        [4],
    )
    for assign in ASSIGNORS.values():
        assignment = assign(spec)
        check_valid(spec, assignment)
        assert (tid(0), 1) in pairs(assignment["a"])
        assert assignment["c"] == ()


@pytest.mark.parametrize("alike", [True, False])
def test_compiled_kernels_give_the_same(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways a kernel runs are one function: results are identical."""
    specs = [random_spec(random.Random(seed), alike=alike, members=20, counts_max=60) for seed in range(40)]
    plain = [[assign(spec) for assign in ASSIGNORS.values()] for spec in specs]
    monkeypatch.setattr(kernels, "COMPILED_FROM", 0)
    kernels.warm()
    assert [[assign(spec) for assign in ASSIGNORS.values()] for spec in specs] == plain


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is compiled for this process alone."""
    compile_kernel = kernels._compile

    def failing(kernel: object, *, cache: bool) -> object:
        if cache:
            raise RuntimeError("no locator available")
        return compile_kernel(kernel, cache=False)

    monkeypatch.setattr(kernels, "_compile", failing)
    monkeypatch.setattr(kernels, "_compiled", {})
    owner = np.full(4, -1, dtype=np.int32)
    scratch = np.zeros((2, 2), dtype=np.int32)
    kernels.run(kernels.share_evenly, kernels.COMPILED_FROM, owner, scratch[0], scratch[1])
    assert owner.tolist() == [0, 0, 1, 1]


def test_numba_is_not_imported_for_small_groups() -> None:
    """An actor pays for numba only when it leads a big group."""
    program = (
        "import sys; from actors.assignors.registry import ASSIGNORS;"
        "from tests.assignors.oracle import member, spec_of;"
        "ASSIGNORS['uniform'](spec_of([member('a', [0])], [100]));"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_big_groups() -> None:
    """1,000 members, 100 topics, 10,000 partitions, compiled: full, then one member leaves."""
    members = [member(f"m{m:04}", list(range(100))) for m in range(1_000)]
    spec = spec_of(members, [100] * 100)
    spec = with_targets(spec, uniform.assign(spec))
    assert {partitions.count(one.target) for one in spec.members} == {10}
    left = AssignmentSpec(spec.members[1:], spec.partition_counts)
    assert moves(left, uniform.assign(left)) == 0
