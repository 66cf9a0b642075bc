"""A member's connection outlives its broker and a move of leadership within its node (design: hand-over)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from actors.network.wire import Wire
from bench.ground.throwaway import Tier
from bench.peers.members import Member
from bench.peers.settling import settle_group
from cluster.ports import free_ports
from tests.polling import until
from tests.tier.conftest import kill

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def one_node() -> Iterator[Tier]:
    """A tier of one node, with one port, that holds all three copies."""
    flags = ("--nodes", "1", "--replicas", "3", "--partitions", "1")
    flags += ("--set", "group.initial.rebalance.delay.ms=0")
    with Tier(*flags, port=free_ports(1)) as running:
        yield running


async def beat(wire: Wire, member: Member) -> int:
    answer = await wire.call(
        "heartbeat",
        4,
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
    )
    return int(answer["error_code"])


def test_one_socket_lives_through_a_broker_crash_and_a_move_of_leadership(one_node: Tier) -> None:
    async def story() -> None:
        (member,) = await settle_group(("127.0.0.1", one_node.port), "survivor", 1)
        wire = await Wire.connect("127.0.0.1", one_node.port)
        assert await beat(wire, member) == 0

        broker = one_node.brokers()[0]
        kill(broker["pid"])
        assert await beat(wire, member) == 0, "served on while the broker is dead"
        await asyncio.to_thread(until, lambda: _broker_is_back(one_node, broker["pid"]), "broker is back")
        assert await beat(wire, member) == 0

        before = _leader(one_node)
        await asyncio.to_thread(one_node.run, "leaders", "move", "0")
        await asyncio.to_thread(until, lambda: _leader(one_node) not in (None, before), "leadership moved")
        answers = [await beat(wire, member) for _ in range(50)]
        assert answers[-1] == 0, "served by the new leader on the same socket"
        assert set(answers) <= {0, 14, 16}
        await wire.close()

    asyncio.run(story())


def _broker_is_back(tier: Tier, old_pid: int) -> bool:
    return any(row["pid"] != old_pid and not row["problem"] for row in tier.brokers())


def _leader(tier: Tier) -> Any:
    return next((r["replica"] for r in tier.replicas() if r["serving"]), None)
