"""Replicas whose directories are gone must not take part as if they had never promised anything."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ground.throwaway import Tier
from bench.peers.settling import settle_group
from tests.polling import until

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(240)]
SHAPE = ("--nodes", "1", "--replicas", "3", "--partitions", "1")


@pytest.fixture(scope="module")
def stopped() -> Iterator[Tier]:
    """A tier that holds the group "kept" and does not run."""
    with Tier(*SHAPE, "--set", "group.initial.rebalance.delay.ms=0", nodes=1) as tier:
        asyncio.run(settle_group(("127.0.0.1", tier.port), "kept", 1))
        tier.run("down")
        yield tier
        start(tier)  # as it is found by whoever stops it


def start(tier: Tier, *flags: str) -> str:
    return tier.run("up", "--detach", "--port", str(tier.port), *flags)


def directory(tier: Tier, replica: int) -> Path:
    return tier.data_dir / "node-1" / f"partition-0-{replica}"


def is_whole(tier: Tier) -> bool:
    return bool(tier.status()["healthy"])


def test_a_minority_that_lost_its_journals_is_built_anew(stopped: Tier) -> None:
    shutil.rmtree(directory(stopped, 1))
    said = " ".join(start(stopped).split())
    assert "partition-0-1 begins anew" in said
    assert "holds no journal; its peers build it anew" in said
    until(lambda: is_whole(stopped), "all replicas vote")
    assert "kept" in stopped.run("groups", "list")
    stopped.run("down")


def test_a_majority_that_lost_its_journals_is_refused_and_may_be_brought_back(stopped: Tier) -> None:
    """The refusal names the directory and the ways out, and leaves the place as it was."""
    away = stopped.data_dir / "away"
    away.mkdir()
    for replica in (0, 1):
        directory(stopped, replica).rename(away / f"partition-0-{replica}")
    with pytest.raises(RuntimeError, match=r"0 has no majority: .* holds no journal .*accept\.loss"):
        start(stopped)
    assert not directory(stopped, 0).exists()
    (away / "partition-0-0").rename(directory(stopped, 0))
    start(stopped)
    until(lambda: is_whole(stopped), "all replicas vote")
    assert "kept" in stopped.run("groups", "list")
    stopped.run("down")


def test_with_the_loss_accepted_a_group_goes_on_with_what_is_left(stopped: Tier) -> None:
    """One of three replicas still has its journal: the group goes on with that replica's state."""
    for replica in (0, 1):
        shutil.rmtree(directory(stopped, replica))
    said = " ".join(start(stopped, "--set", "accept.loss=true").split())
    assert "partition-0 had no majority left: partition-0-2 goes on with what it has" in said
    until(lambda: is_whole(stopped), "all replicas vote")
    assert "kept" in stopped.run("groups", "list")
    stopped.run("down")
    start(stopped)
    until(lambda: is_whole(stopped), "the next start needs nothing accepted")
    stopped.run("down")


def test_with_the_loss_accepted_a_group_that_lost_everything_is_empty(stopped: Tier) -> None:
    for replica in range(3):
        shutil.rmtree(directory(stopped, replica))
    start(stopped, "--set", "accept.loss=true")
    until(lambda: is_whole(stopped), "all replicas vote")
    assert "kept" not in stopped.run("groups", "list")
    stopped.run("down")
