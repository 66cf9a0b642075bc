"""A replica whose journal is gone must not take part as if it had never promised anything."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from bench.members import settle_group
from bench.throwaway import Tier

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_tier_with_a_lost_journal_starts_only_if_the_loss_is_accepted() -> None:
    """The refusal names the directory and the way out, and touches nothing; the group is kept."""
    shape = ("--nodes", "1", "--replicas", "3", "--partitions", "1")
    with Tier(*shape, "--set", "group.initial.rebalance.delay.ms=0", nodes=1) as tier:
        asyncio.run(settle_group(("127.0.0.1", tier.port), "kept", 1))
        tier.run("down")
        lost = tier.data_dir / "node-1" / "partition-0-1"
        shutil.rmtree(lost)
        up = ("up", "--detach", "--port", str(tier.port))
        with pytest.raises(RuntimeError, match="holds no journal"):
            tier.run(*up)
        assert not list(lost.rglob("*.journal"))
        tier.run(*up, "--set", "accept.loss=true")
        assert "kept" in tier.run("groups", "list")
