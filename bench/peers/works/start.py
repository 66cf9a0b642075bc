"""Work 7: the time from the launch of a peer's processes until it serves its first join, on peers of its
own."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import uvloop

from bench.peers.classic import storm
from bench.peers.options import Options
from bench.peers.peer import POLL_S, Peer
from bench.peers.plan import Sample, Scenario
from bench.peers.runner import on_its_own

TIMEOUT_S: Final = 120.0
SESSION_TIMEOUT_MS: Final = 60_000


def scenarios(options: Options) -> list[Scenario]:
    """The scenario: a start in an empty directory. What is made only once is in our time (our identity), not
    in Kafka's (its format)."""
    return [
        Scenario(
            work=7,
            heading="Start",
            label="to the first served join",
            measure=measure,
            shown=("seconds",),
            fresh=True,
        )
    ]


def measure(peer: Peer) -> Sample:
    peer.needs_groups()
    with on_its_own(peer) as own:
        uvloop.run(_first_join(own))
        seconds = time.monotonic() - own.launched_at
    return Sample(figures={"seconds": seconds}, requests=1)


async def _first_join(peer: Peer) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            await storm(peer, ["first"], 1, SESSION_TIMEOUT_MS)
            return
        except Exception:
            # The peer may answer with any error until it serves.
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_S)
