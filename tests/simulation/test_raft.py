"""Raft alone under faults: crashes, power loss, pauses, partitions, hang-ups, full disks, transfers.

Checked in every run: no two replicas apply different entries at one index, states are equal at equal index,
what was acknowledged stays, at most one replica holds a lease and reads everything acknowledged, and a healed
group converges.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from storage.errors import RaftFatal
from storage.raft import Raft
from tests.simulation.faults import run
from tests.simulation.mutants import MUTANTS
from tests.simulation.world import Violation

SEEDS_A_TEST = 10
MUTANT_SEEDS = 1_000
RED_SEEDS = ((10_012, 3), (10_062, 3), (10_357, 3), (10_421, 3), (10_484, 3), (80_018, 5))


@pytest.mark.parametrize("batch", range(10))
def test_acknowledged_entries_and_lease_reads_survive_any_faults(batch: int) -> None:
    acknowledged = lease_reads = 0
    for seed in range(batch * SEEDS_A_TEST, (batch + 1) * SEEDS_A_TEST):
        world = run(seed)
        acknowledged += world.acknowledged
        lease_reads += world.lease_reads
    assert acknowledged > 50 * SEEDS_A_TEST, "the world has to get work done, or it proves nothing"
    assert lease_reads > 50 * SEEDS_A_TEST


@pytest.mark.parametrize(("seed", "replicas"), RED_SEEDS)
def test_a_seed_that_was_ever_red(seed: int, replicas: int) -> None:
    run(seed, replicas=replicas)


def test_five_replicas_too() -> None:
    assert sum(run(seed, replicas=5).acknowledged for seed in range(8)) > 400


def _trace(seed: int) -> str:
    world = run(seed)
    return f"{world.events} {world.acknowledged} {world.now} {sorted(world.digests.items())[-1:]}"


def test_a_seed_gives_the_same_run_whatever_the_hash_seed_is() -> None:
    """Else a red seed could not be looked at again."""
    script = "from tests.simulation.test_raft import _trace; print(_trace(3))"
    traces = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert traces == {_trace(3)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 21_000, 1_000))
def test_many_more_seeds(seed: int) -> None:
    for number in range(seed, seed + 250):
        run(number, replicas=5 if number % 10 == 0 else 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_world_notices_each_known_mistake(mutant: type[Raft]) -> None:
    assert any(_is_noticed(mutant, seed) for seed in range(MUTANT_SEEDS))


def _is_noticed(mutant: type[Raft], seed: int) -> bool:
    try:
        run(seed, replicas=5 if seed % 2 else 3, raft_class=mutant)
    except (Violation, RaftFatal):
        return True
    return False
