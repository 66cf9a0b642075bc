"""Every test here runs on both event loops: uvloop, which serves, and asyncio, which has the same API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a story to its end on a fresh loop, for 30 s at most. An exception that nobody handled fails it."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def runner(story: Coroutine[Any, Any, None]) -> None:
        unhandled: list[dict[str, Any]] = []

        async def bounded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
            async with asyncio.timeout(30):
                await story
            for _ in range(3):  # let closed transports close their sockets
                await asyncio.sleep(0)

        with asyncio.Runner(loop_factory=factory) as it:
            it.run(bounded())
        assert unhandled == []

    return runner
