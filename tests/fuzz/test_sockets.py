"""The same spoilt frames over real sockets at a real tier: nobody crashes or hangs, nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.network.wire import Wire
from bench.ground.throwaway import Tier
from bench.peers.members import find_coordinator
from cluster.ports import free_ports
from tests.fuzz.sockets import bombard

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(600)]

FRAMES = 4_000
CLIENTS = 20
ATTACK_S_MAX = 500.0
UNKNOWN_MEMBER_ID = 25
GROWTH_MIB_MAX = 150.0
"""How much all the tier's processes together may grow."""
BAD_LINES = ("Traceback", "internal error", "could not be served", "fatal, leaving")


@pytest.fixture(scope="module")
def tier() -> Iterator[Tier]:
    with Tier("--nodes", "1", "--replicas", "1", "--partitions", "2", port=free_ports(1)) as running:
        yield running


async def beat(tier: Tier) -> int:
    """The error code of a heartbeat in a group that nobody is in, on a connection of its own."""
    wire = await Wire.connect(*await find_coordinator("127.0.0.1", tier.port, "bystander"))
    answer = await wire.call("heartbeat", 4, group_id="bystander", generation_id=1, member_id="nobody")
    await wire.close()
    return int(answer["error_code"])


def resident_mib(tier: Tier) -> float:
    actors = [process for process in tier.processes() if process.name().startswith("ray::")]
    return sum(process.memory_info().rss for process in actors) / 2**20


def test_spoilt_frames_over_sockets_leave_the_tier_as_it_was(tier: Tier) -> None:
    """No process ends, no log line tells of a bug, memory stays, and others are answered all the while."""
    pids = set(tier.pids())
    before_mib = resident_mib(tier)

    async def story() -> int:
        attack = asyncio.create_task(
            bombard("127.0.0.1", tier.port, 1, CLIENTS, ATTACK_S_MAX, FRAMES // CLIENTS)
        )
        while not attack.done():
            assert await beat(tier) == UNKNOWN_MEMBER_ID
        return attack.result().answered

    assert asyncio.run(story()) > FRAMES // 10
    assert set(tier.pids()) == pids
    assert resident_mib(tier) - before_mib < GROWTH_MIB_MAX
    told = [
        line
        for log in Path(tier.data_dir, "logs").glob("*.log")
        for line in log.read_text(encoding="utf-8").splitlines()
        if any(bad in line for bad in BAD_LINES)
    ]
    assert told == []
