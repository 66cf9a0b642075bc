"""What a machine that lost its disk is told by the others: whether a tier was formed, and what they have."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from actors.runtime import ActorOptions
from cluster.machine.kept_actors import KeptActor, KeptActors
from tests.cluster.machine.agents import Agents, join
from tests.polling import reached

TIER = "groupd-a-tier"


def play(tmp_path: Path, story: Callable[[Agents], Awaitable[None]]) -> None:
    async def whole() -> None:
        agents = Agents(tmp_path / "agents")
        tmp_path.joinpath("agents").mkdir()
        try:
            await story(agents)
        finally:
            await agents.close()

    asyncio.run(whole())


def give_an_actor(kept_in: Path) -> None:
    """Let a machine have had an actor of the tier."""
    options = ActorOptions(namespace=TIER, env={}, kinds={})
    KeptActors(kept_in).keep(KeptActor("broker", "broker-1", (), options))


def test_a_machine_without_its_disk_learns_that_the_tier_was_formed(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, empty = await agents.head(), await agents.new("empty")
        await join(empty, head)
        empty.others.learn([head.address])
        await reached(lambda: empty.others.answering(), "the machines know each other")
        assert not await empty.others.ask(empty.address, "is_formed", TIER)
        give_an_actor(agents.path("head") / "actors")
        await head.others.ask(head.address, "form", TIER)
        assert await empty.others.ask(empty.address, "is_formed", TIER)

    play(tmp_path, story)


def test_what_was_called_on_another_machine_tells_its_result(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, other = await agents.head(), await agents.new("other")
        asked = await other.others.ask(head.address, "run", head.address, os.path.basename, ("/a/b",))
        assert asked == "b"

    play(tmp_path, story)
