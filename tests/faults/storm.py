"""A schedule of kills and freezes drawn from a seed, carried out on the real processes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.faults.clients import Clients
from tests.faults.shape import REPLICAS
from tests.faults.supervisor import Supervisor

CALM = 0.5
"""How often a step waits until commits are acknowledged again; else the next fault meets the recovery."""


class Plan(NamedTuple):
    kills: int
    """How many processes have to be killed, at least."""
    pauses: int
    pause_s: tuple[float, float]
    seed: int


async def carry_out(plan: Plan, group: Supervisor, clients: Clients) -> Counter[str]:
    """Carry out the plan; at the end all replicas run again. Returns how often each kind of fault was met."""
    storm = _Storm(plan, group)
    steps = storm.steps()
    for kind in steps:
        await storm.step(kind)
        if storm.random.random() < CALM:
            await clients.progress(group.story)
    await storm.end()
    await group.all_ready()
    return storm.met


class _Storm:
    def __init__(self, plan: Plan, group: Supervisor) -> None:
        self.random = random.Random(plan.seed)
        self.met: Counter[str] = Counter()
        self._plan = plan
        self._group = group
        self._frozen: set[asyncio.Task[None]] = set()

    def steps(self) -> Sequence[str]:
        """Kinds of kills until there are enough, freezes scattered among them."""
        sizes = {"leader": 1, "follower": 1, "two": 2, "all": 3}
        kinds: list[str] = []
        while sum(sizes[kind] for kind in kinds) < self._plan.kills:
            kinds += self.random.choices(tuple(sizes), (5, 3, 1, 1))
        kinds += self.random.choices(("freeze leader", "freeze follower"), (2, 1), k=self._plan.pauses)
        self.random.shuffle(kinds)
        return kinds

    async def step(self, kind: str) -> None:
        """Do one fault at a random moment, and start killed processes again after a random time."""
        await asyncio.sleep(self.random.uniform(0, 0.6))
        victims = await self._victims(kind)
        if kind.startswith("freeze"):
            for replica in victims:
                self._freeze(replica)
            return
        self._group.kill(*victims)
        self.met["kills"] += len(victims)
        await asyncio.sleep(self.random.uniform(0, 0.6))
        for replica in victims:
            self._group.start(replica)

    async def end(self) -> None:
        await asyncio.gather(*self._frozen)

    async def _victims(self, kind: str) -> list[int]:
        running = sorted(self._group.running)
        self.random.shuffle(running)
        leader = await self._group.leader()
        running.sort(key=lambda replica: (replica == leader) == kind.endswith("follower"))
        count = {"all": len(REPLICAS), "two": 2}.get(kind, 1)
        victims = running[:count]
        self.met[kind] += 1
        return victims

    def _freeze(self, replica: int) -> None:
        self.met["pauses"] += 1
        resume = self._group.pause(replica)
        task = asyncio.create_task(_later(self.random.uniform(*self._plan.pause_s), resume))
        self._frozen.add(task)


async def _later(delay_s: float, action: Callable[[], None]) -> None:
    await asyncio.sleep(delay_s)
    action()
