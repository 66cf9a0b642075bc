"""What tells a story to a leader with the lane and to one without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from tests.leader.lane_pair import Pair, Story


@pytest.fixture(params=["uvloop", "asyncio"])
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Story], None]]:
    """Run a story to its end."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    async def told(story: Story) -> None:
        pair = Pair(tmp_path)
        await pair.start()
        try:
            await story(pair)
        finally:
            await pair.stop()

    with asyncio.Runner(loop_factory=factory) as runner:
        yield lambda story: runner.run(told(story))
