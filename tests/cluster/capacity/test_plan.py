"""The search for the smallest tier: what decides, what a loss leaves, and what is refused."""

from __future__ import annotations

import pytest

from cluster.capacity.plan import LIMITS, TooLargeError, plan
from cluster.capacity.workload import Machine, NonsenseError, Safety, Workload
from tests.cluster.capacity import made_up

BIG = Machine(cores=64, memory_bytes=256 * 2**30)
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def test_a_small_load_needs_as_many_machines_as_there_are_copies() -> None:
    tier = plan(Workload(1_000), Machine(), Safety(), made_up.table())
    assert tier.shape.machines == tier.shape.nodes == 3
    assert tier.shape.partitions == 3
    assert tier.decided_by.startswith("one leader would do")
    one = plan(Workload(1_000), Machine(), Safety(copies=1, lost=0), made_up.table())
    assert one.shape.machines == 1


def test_every_leader_has_members_heartbeats_and_cores_within_its_limits() -> None:
    for members in SIZES:
        tier = plan(Workload(members), BIG, Safety(), made_up.table())
        assert tier.fullest_leader_cores <= LIMITS["leader_cores"].value
        assert members / tier.shape.partitions <= LIMITS["leader_members"].value


def test_what_is_left_after_a_loss_has_room() -> None:
    for members in SIZES:
        tier = plan(Workload(members), BIG, Safety(), made_up.table())
        assert tier.lost.cores <= LIMITS["machine_cores"].value * BIG.cores
        assert tier.lost.memory_bytes <= LIMITS["machine_memory"].value * BIG.memory_bytes
        assert tier.lost.cores > tier.whole.cores


def test_more_members_never_need_a_smaller_tier() -> None:
    tiers = [plan(Workload(members), BIG, Safety(), made_up.table()) for members in SIZES]
    for figure in ("cores", "disk_bytes"):
        values = [getattr(tier.needs, figure) for tier in tiers]
        assert values == sorted(values)
    assert [tier.shape.machines for tier in tiers] == sorted(tier.shape.machines for tier in tiers)


def test_the_tier_is_the_smallest() -> None:
    """It has more machines than copies because one machine less would be too full."""
    tier = plan(Workload(1_000_000), Machine(4), Safety(), made_up.table())
    assert tier.shape.machines > 3
    assert tier.decided_by.split("; ")[1].startswith("a machine's ")


def test_memory_can_decide() -> None:
    small = Machine(cores=64, memory_bytes=4 * 2**30)
    tier = plan(Workload(1_000_000, heartbeat_s=60, commit_s=None), small, Safety(), made_up.table())
    assert "a machine's memory after the loss" in tier.decided_by


def test_members_decide_where_hardly_anybody_speaks() -> None:
    tier = plan(Workload(1_000_000, heartbeat_s=600, commit_s=None), BIG, Safety(), made_up.table())
    assert tier.decided_by.startswith("a leader's members")
    assert tier.shape.partitions > 10, "the fullest partition counts, not the mean"


def test_leaders_are_as_many_on_every_machine() -> None:
    for members in SIZES:
        shape = plan(Workload(members), Machine(8), Safety(), made_up.table()).shape
        assert shape.partitions % shape.machines == 0


def test_connections_are_those_of_a_node_after_the_loss() -> None:
    tier = plan(Workload(300_000, commit_s=None), BIG, Safety(), made_up.table())
    assert tier.connections_per_node == 300_000 / (tier.shape.nodes - 1)


def test_a_load_that_no_tier_carries_is_refused_with_what_is_in_the_way() -> None:
    with pytest.raises(TooLargeError, match=r"99 machines of 1 cores .*a machine's processors"):
        plan(Workload(10_000_000), Machine(cores=1), Safety(), made_up.table())
    with pytest.raises(TooLargeError, match=r"1,000 offsets partitions are not enough"):
        plan(Workload(100_000_000, heartbeat_s=1), Machine(), Safety(), made_up.table())


@pytest.mark.parametrize(
    ("load", "machine", "safety", "words"),
    [
        (Workload(0), Machine(), Safety(), "--members 0: 1 to 100,000,000 are allowed"),
        (Workload(5, group_size=6), Machine(), Safety(), "--group-size 6: 1 to 5 are allowed"),
        (Workload(100, heartbeat_s=0), Machine(), Safety(), "--heartbeat 0s: 0.1s to 3,600s are allowed"),
        (Workload(100, commit_s=0), Machine(), Safety(), "--commit 0s"),
        (Workload(100, offsets=0), Machine(), Safety(), "--offsets 0"),
        (Workload(100, rebalance_s=1), Machine(), Safety(), "--rebalance 1s"),
        (Workload(100), Machine(cores=0), Safety(), "--cores 0"),
        (Workload(100), Machine(memory_bytes=1), Safety(), "--memory"),
        (Workload(100), Machine(), Safety(copies=2), "--replicas 2: 1, 3, 5, 7 are sensible"),
        (Workload(100), Machine(), Safety(3, 2), "--lose 2: 3 copies survive the loss of 1 .* --replicas 5"),
        (Workload(100), Machine(), Safety(3, -1), "--lose -1"),
    ],
)
def test_nonsense_is_refused_by_its_flag(
    load: Workload, machine: Machine, safety: Safety, words: str
) -> None:
    with pytest.raises(NonsenseError, match=words):
        plan(load, machine, safety, made_up.table())
