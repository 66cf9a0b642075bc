"""A machine that begins anew waits for nothing that is under way: to wait for the dead takes minutes."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from actors.ground.calls import ActorCallError
from cluster.machine.agent import Agent
from tests.cluster.machine.agents import Agents
from tests.polling import reached

HUNG_S = 20.0
AT_ONCE_S = 2.0

_begun = threading.Event()
_over = threading.Event()


def hang() -> None:
    """Wait as a question does to a Ray that is gone."""
    _begun.set()
    _over.wait(HUNG_S)


def test_a_question_that_hangs_is_given_up_with_its_machine(tmp_path: Path) -> None:
    """Whoever asked learns it at once."""

    async def story(agents: Agents) -> None:
        head, asker = await agents.head(), await agents.new("asker")
        asked = asyncio.ensure_future(ask_to_hang(asker, head))
        await reached(_begun.is_set, "the question is under way")
        await agents.end(head)
        with pytest.raises(ActorCallError):
            await asyncio.wait_for(asked, AT_ONCE_S)
        await agents.close()

    async def ask_to_hang(asker: Agent, head: Agent) -> None:
        await asker.others.ask(head.address, "run", head.address, hang, ())

    directory = tmp_path / "agents"
    directory.mkdir()
    began = time.monotonic()
    try:
        # What the loop's own threads do is waited for when it ends, too.
        asyncio.run(story(Agents(directory)))
        assert time.monotonic() - began < HUNG_S / 2
    finally:
        _over.set()
