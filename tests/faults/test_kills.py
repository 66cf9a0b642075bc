"""Real processes, killed and frozen at random moments under load: what was acknowledged is always there."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
import uvloop

from tests.faults.clients import Clients
from tests.faults.storm import Plan, carry_out
from tests.faults.supervisor import Supervisor


async def _live_through(plan: Plan, root: Path) -> Counter[str]:
    async with Supervisor(root) as group:
        async with Clients(group.run_dir) as clients:
            await clients.progress(group.story)
            met = await carry_out(plan, group, clients)
            await clients.progress(group.story)
            await clients.quiet()
            clients.check(await group.equal_states())
        met["commits"] = clients.acknowledged
        met["retries"] = sum(history.retries for history in clients.histories.values())
        met["reads"] = sum(history.reads for history in clients.histories.values())
        assert group.ended == [], "nobody leaves unless killed"
    return met


def _play(plan: Plan, root: Path) -> Counter[str]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        met = runner.run(_live_through(plan, root))
    print(dict(met))
    assert met["kills"] >= plan.kills
    assert met["pauses"] == plan.pauses
    return met


def test_what_was_acknowledged_outlives_a_few_kills_and_freezes(tmp_path: Path) -> None:
    """Leader, follower, several at once: all replicas end equal, and no client saw anything older than what
    had been acknowledged."""
    met = _play(Plan(kills=10, pauses=2, pause_s=(1.0, 2.0), seed=1), tmp_path)
    assert met["commits"] > 100


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_what_was_acknowledged_outlives_hundreds_of_kills_and_freezes(tmp_path: Path) -> None:
    """The same for 200 kills and 20 freezes of up to 10 s."""
    met = _play(Plan(kills=200, pauses=20, pause_s=(1.0, 10.0), seed=2), tmp_path)
    assert met["commits"] > 2_000
