"""Work 7: from the launch of its processes until a peer serves its first join. On peers of its own."""

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
    """An empty directory; what a start makes only once (Kafka's format, our identity) is in ours alone."""
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
            # Whatever it answers until it serves.
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_S)
