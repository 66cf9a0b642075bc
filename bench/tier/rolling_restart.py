"""How many rebalances a rolling restart costs: the same raw members, restarted one by one, on each server.

Members are of the classic protocol, heartbeat every three seconds, rejoin when they are told to, leave and
come back without a member id. All servers go through it at the same time, for it is hardly any load. What is
counted is generations, as the members themselves are told them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.ground.interrupts import deaf
from bench.peers.options import Options
from bench.peers.peer import Peer
from cluster.wire import Closed, Wire

INTERVAL_S = 3.0
SESSION_MS = 45_000
REBALANCE_MS = 300_000
ANSWER_TIMEOUT_S = 400.0
GROUP = "rolling"
MEMBER_ID_REQUIRED = 79
UNKNOWN_MEMBER_ID = 25
SETTLE_S = 20.0


class Plan(NamedTuple):
    members: int = 200
    away_s: float = 2.0
    """How long a member is gone."""
    next_s: float = 3.0
    """From its return until the next one leaves."""


class Counted(NamedTuple):
    peer: str
    members: int
    rebalances: int
    lost_members: int
    """Who was told to be unknown, though it did not leave."""


class _Group:
    """What its members know together."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.generation = 0
        self.lost = 0
        self.chance = random.Random(1)


class _Member:
    """One process with one consumer."""

    def __init__(self, group: _Group) -> None:
        self._group = group
        self._member_id = ""
        self._life: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._member_id = ""
        self._life = asyncio.create_task(self._live())

    async def stop(self, *, leaves: bool) -> None:
        assert self._life is not None, "started"
        self._life.cancel()
        await asyncio.wait([self._life])
        if not self._life.cancelled() and (error := self._life.exception()) is not None:
            raise error
        if leaves and self._member_id:
            wire = await Wire.connect(*self._group.address, "rolling")
            await wire.call("leave_group", 4, group_id=GROUP, members=[{"member_id": self._member_id}])
            await wire.close()

    async def _live(self) -> None:
        wire = await Wire.connect(*self._group.address, "rolling")
        try:
            while True:
                generation = await self._joined(wire)
                while await self._beat(wire, generation) == 0:
                    pass
        finally:
            await wire.close()

    async def _joined(self, wire: Wire) -> int:
        """The generation that it is in, its assignment in hand."""
        while True:
            answer = await self._join(wire)
            if answer["error_code"] == 0 and await self._sync(wire, answer) == 0:
                generation: int = answer["generation_id"]
                self._group.generation = max(self._group.generation, generation)
                return generation
            self._note(answer["error_code"], answer["member_id"])

    def _note(self, error_code: int, member_id: str = "") -> None:
        if error_code == MEMBER_ID_REQUIRED:
            self._member_id = member_id
        elif error_code == UNKNOWN_MEMBER_ID:
            self._group.lost += 1
            self._member_id = ""

    async def _join(self, wire: Wire) -> dict[str, Any]:
        return await wire.call(
            "join_group",
            9,
            timeout_s=ANSWER_TIMEOUT_S,
            group_id=GROUP,
            session_timeout=SESSION_MS,
            rebalance_timeout=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
        )

    async def _sync(self, wire: Wire, joined: dict[str, Any]) -> int:
        answer = await wire.call(
            "sync_group",
            5,
            timeout_s=ANSWER_TIMEOUT_S,
            group_id=GROUP,
            generation_id=joined["generation_id"],
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": m["member_id"], "assignment": b""} for m in joined["members"]],
        )
        return int(answer["error_code"])

    async def _beat(self, wire: Wire, generation: int) -> int:
        await asyncio.sleep(INTERVAL_S * self._group.chance.uniform(0.95, 1.05))
        answer = await wire.call(
            "heartbeat", 4, group_id=GROUP, generation_id=generation, member_id=self._member_id
        )
        self._note(answer["error_code"])
        return int(answer["error_code"])


def measure(
    peers: list[type[Peer]], options: Options, plan: Plan, say: Callable[[str], None]
) -> list[Counted]:
    """Starts the servers, restarts the members, stops the servers."""
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
    members = [_Member(group) for _ in range(plan.members)]
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
