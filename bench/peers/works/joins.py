"""Work 3: classic members all join at once; the time until every group is stable is measured."""

from __future__ import annotations

from functools import partial
from typing import Final

import uvloop

from bench.peers.classic import storm
from bench.peers.options import Options, Refused
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario, kept, saturated

SESSION_TIMEOUT_MS: Final = 60_000
SHOWN: Final = ("seconds", "cpu_s")


def scenarios(options: Options) -> list[Scenario]:
    """The scenarios: one huge group, and many small ones, without initial delay."""
    shapes = ((1, options.size(1_000, 50)), (options.size(1_000, 20), 5))
    return [
        Scenario(
            work=3,
            heading="JoinGroup storm until stable",
            label=f"{groups:,} group{'s' if groups > 1 else ''} of {size:,}",
            measure=partial(measure, groups, size),
            shown=SHOWN,
            warm_up=f"storm {groups}",
        )
        for groups, size in shapes
    ]


def measure(groups: int, size: int, peer: Peer) -> Sample:
    """Measure a storm of `groups` groups of `size` members."""
    numbers: list[int] = kept(peer, "storms", list)
    numbers.append(len(numbers))
    group_ids = [f"storm-{numbers[-1]}-{n}" for n in range(groups)]
    peer.needs_groups()
    if peer.group_size == 1:
        raise Refused("groups of several members do not get on in it")
    told = uvloop.run(storm(peer, group_ids, size, SESSION_TIMEOUT_MS))
    return Sample(
        figures={"seconds": told.seconds, "cpu_s": told.cpu_s},
        requests=told.requests,
        generator_share=told.generator_share,
        marks=saturated(told.generator_share),
    )
