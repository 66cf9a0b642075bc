"""Work 8: what a peer costs when it gets no requests. It comes first, when nothing has happened yet."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from bench.peers.options import Options
from bench.peers.peer import CpuClock, Peer
from bench.peers.plan import Sample, Scenario, kept

SETTLED_S: Final = 15.0
SECONDS: Final = 10.0


def scenarios(options: Options) -> list[Scenario]:
    """The scenario: the share of a core that each peer takes in the same seconds."""
    wait = (options.size(1, 0) * SETTLED_S, options.seconds if options.quick else SECONDS)
    return [
        Scenario(
            work=8,
            heading="Idle",
            label="just started",
            measure=partial(_measure, *wait),
            shown=("core", "own_core"),
            together=True,
        )
    ]


def _measure(settled_s: float, seconds: float, peer: Peer) -> Sample:
    kept(peer, "settled", lambda: time.sleep(settled_s))
    clock, own_pids = CpuClock(peer.pids()), set(peer.own_pids())
    time.sleep(seconds)
    cpu = clock.by_pid()
    shares = (sum(cpu.values()), sum(cpu[pid] for pid in cpu if pid in own_pids))
    return Sample(
        figures={"core": shares[0] / seconds * 100, "own_core": shares[1] / seconds * 100}, requests=0
    )
