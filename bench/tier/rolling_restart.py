"""Counts the rebalances of a rolling restart: the same fake members are restarted one by one on each server.

Members are of the classic protocol, heartbeat every three seconds, rejoin when they are told to, leave, and
come back without a member id. All servers go through it at the same time, because it is hardly any load.
Generations are counted as the members are told them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

from actors.network.wire import Closed, Wire
from actors.protocol.consumer_protocol import Subscription, write_subscription
from bench.ground.interrupts import deaf
from bench.member.assigning import Alike
from bench.member.classic import ClassicMember, ClassicTerms
from bench.member.reactions import Reaction
from bench.peers.lines import Address, Line
from bench.peers.living import Living
from bench.peers.options import Options
from bench.peers.peer import Peer

INTERVAL_S = 3.0
SESSION_MS = 45_000
REBALANCE_MS = 300_000
GROUP = "rolling"
ALIKE = Alike(write_subscription(Subscription(()), 0))
"""The assignor of members that subscribe to nothing and are assigned nothing."""
SETTLE_S = 20.0


class Plan(NamedTuple):
    members: int = 200
    away_s: float = 2.0
    """How long a member is away."""
    next_s: float = 3.0
    """The seconds from a member's return until the next one leaves."""


class Counted(NamedTuple):
    peer: str
    members: int
    rebalances: int
    lost_members: int
    """How many members were told to be unknown, though they had not left."""


class _Group:
    """The answers to all members of a group together."""

    def __init__(self, address: Address) -> None:
        self.group_id = GROUP
        self.address = address
        self.generation = 0
        self.lost = 0
        self._chance = random.Random(1)

    def new_member(self) -> ClassicMember:
        """Make a member whose heartbeats are not in step with those of others."""
        interval_s = INTERVAL_S * self._chance.uniform(0.95, 1.05)
        return ClassicMember(ClassicTerms(GROUP, ALIKE, SESSION_MS, REBALANCE_MS, interval_s))

    def heard(self, member: ClassicMember, reaction: Reaction) -> None:
        self.generation = max(self.generation, member.epoch)
        self.lost += reaction is Reaction.LOST

    def left(self, member: ClassicMember) -> None:
        """Note that a member leaves, which does not count as lost."""


class _Process:
    """One process with one consumer, which is another member after each start."""

    def __init__(self, group: _Group) -> None:
        self._group = group
        self._member = group.new_member()
        self._life: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._member = self._group.new_member()
        self._life = asyncio.create_task(self._live())

    async def stop(self, *, leaves: bool) -> None:
        assert self._life is not None, "started"
        self._life.cancel()
        await asyncio.wait([self._life])
        if not self._life.cancelled() and (error := self._life.exception()) is not None:
            raise error
        if leaves:
            line = await Line.open(self._group.address)
            await Living(line, self._group, self._member).leave()
            line.close()

    async def _live(self) -> None:
        line = await Line.open(self._group.address)
        try:
            await Living(line, self._group, self._member).run()
        finally:
            line.close()


def measure(
    peers: list[type[Peer]], options: Options, plan: Plan, say: Callable[[str], None]
) -> list[Counted]:
    """Start the servers, restart the members, and stop the servers."""
    running: list[Peer] = []
    try:
        for peer in peers:
            started = peer(options)
            if missing := started.missing():
                say(f"{started.name}: {missing}")
                continue
            running.append(started)
            started.start()
            started.wait_until_ready()
        seconds = plan.members * (plan.away_s + plan.next_s) + 2 * SETTLE_S
        say(f"{plan.members} members restart one by one, {seconds:.0f} s")
        return asyncio.run(_roll_all(running, plan))
    finally:
        with deaf():
            for peer_running in running:
                peer_running.stop()


async def _roll_all(peers: list[Peer], plan: Plan) -> list[Counted]:
    return list(await asyncio.gather(*(_roll(peer, plan) for peer in peers)))


async def _roll(peer: Peer, plan: Plan) -> Counted:
    group = _Group(await _coordinator(peer))
    members = [_Process(group) for _ in range(plan.members)]
    for member in members:
        member.start()
    await asyncio.sleep(SETTLE_S)
    before = group.generation
    for member in members:
        await member.stop(leaves=True)
        await asyncio.sleep(plan.away_s)
        member.start()
        await asyncio.sleep(plan.next_s)
    await asyncio.sleep(SETTLE_S)
    rebalances = group.generation - before
    for member in members:
        await member.stop(leaves=False)
    return Counted(peer.name, plan.members, rebalances, group.lost)


async def _coordinator(peer: Peer) -> tuple[str, int]:
    wire = await Wire.connect(*peer.bootstrap[0], "rolling")
    try:
        found = await wire.call("find_coordinator", 2, key=GROUP, key_type=0)
    except Closed as closed:
        raise RuntimeError(f"{peer.name} does not tell who coordinates {GROUP}") from closed
    finally:
        await wire.close()
    return found["host"], found["port"]
