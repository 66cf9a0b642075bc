"""Agents of machines in one loop, each with a directory and a port; they keep no Ray."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from actors.ground.release import LEVEL_MAX, LEVEL_MIN
from cluster import machine_secret, tier_file
from cluster.machine import agent, identity
from cluster.machine.agent import Agent
from cluster.machine.identity import Identity
from cluster.ports import free_ports

NOW_MS = 1_800_000_000_000


class Agents:
    """The agents of one test; they are closed at its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, tuple[Agent, asyncio.Server]] = {}

    def path(self, name: str) -> Path:
        return self._directory / name

    async def head(self, name: str = "head") -> Agent:
        """Start the first machine's agent."""
        directory = self.path(name)
        directory.mkdir()
        return await self._start(directory, identity.begin(directory, new_address()))

    async def new(self, name: str, secret_of: str | None = "head") -> Agent:
        """Start the agent of a machine that belongs nowhere yet."""
        directory = self.path(name)
        directory.mkdir()
        if secret_of is not None:
            machine_secret.take(directory, self.path(secret_of) / machine_secret.NAME)
        me = Identity(cluster="", address=new_address())
        identity.write(directory, me)
        return await self._start(directory, me)

    async def again(self, name: str) -> Agent:
        """Start the agent of a directory that was used before."""
        me = identity.read(self.path(name))
        assert me is not None
        return await self._start(self.path(name), me)

    async def _start(self, directory: Path, me: Identity) -> Agent:
        _, secret = tier_file.secret(directory, machine_secret.NAME)
        started = Agent(directory, me, secret, clock_ms=lambda: NOW_MS)
        self._running[started.address] = (started, await started.listen())
        return started

    async def end(self, ended: Agent) -> None:
        """End an agent as its machine does: its port and its connections are closed."""
        _, server = self._running.pop(ended.address)
        server.close()
        await ended.close()

    async def close(self) -> None:
        for each, _ in list(self._running.values()):
            await self.end(each)
        shutil.rmtree(self._directory, ignore_errors=True)


def new_address() -> str:
    return f"127.0.0.1:{free_ports(1)}"


async def join(
    newcomer: Agent,
    to: Agent,
    *,
    its_levels: tuple[int, int] = (LEVEL_MIN, LEVEL_MAX),
    late_ms: int = 0,
    **changed: Any,
) -> tuple[str, tuple[str, ...]]:
    """Let a machine ask another one to be taken in. Raises ActorCallError."""
    me = newcomer.others.me
    asked = {"address": me.address, "cluster": me.cluster} | changed
    answer: tuple[str, tuple[str, ...]] = await newcomer.others.ask(
        to.address,
        "join",
        *asked.values(),
        "0.9.9",
        NOW_MS + late_ms,
        its_levels,
        timeout_s=agent.JOIN_TIMEOUT_S,
    )
    return answer
