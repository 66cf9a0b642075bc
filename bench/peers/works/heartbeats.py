"""Work 1: what a heartbeat costs, of both protocols, as fast as it goes and at fixed rates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bench.peers import load
from bench.peers.crowds import classic_members, consumer_members, target
from bench.peers.load import Target
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario

CLOSED: Final = (50, 500, 5_000)
"""The numbers of connections of the closed loops."""
OPEN: Final = (500, 2_000, 8_000, 30_000)
"""The rates of the open loops, in requests per second."""
OPEN_CONNECTIONS: Final = 500
KINDS: Final = ("Heartbeat", "ConsumerGroupHeartbeat")
OURS: Final = ("groupd-1", "groupd-3")

Targets = Callable[[Peer, int], list[Target]]


def scenarios(options: Options) -> list[Scenario]:
    """The scenarios: both protocols, in closed and open loops."""
    found = []
    for api, targets, closed_us, open_us in zip(
        KINDS, (classic_targets, consumer_targets), (12, 12), (40, 42), strict=True
    ):
        for connections in CLOSED if not options.quick else CLOSED[:1]:
            found.append(
                Scenario(
                    work=1,
                    heading=api,
                    label=f"closed loop, {connections:,} connections",
                    measure=partial(_measure, options, targets, connections, None),
                    shown=("cpu_us", "per_s"),
                    warm_up=api,
                    goals={(ours, "cpu_us"): closed_us for ours in OURS},
                )
            )
        for rate in OPEN if not options.quick else OPEN[:1]:
            connections = options.size(OPEN_CONNECTIONS, 50)
            found.append(
                Scenario(
                    work=1,
                    heading=api,
                    label=f"{rate:,}/s, {connections} connections",
                    measure=partial(_measure, options, targets, connections, rate),
                    shown=("cpu_us", "p99_ms"),
                    warm_up=api,
                    goals={(ours, "cpu_us"): open_us for ours in OURS} if rate == 2_000 else {},
                    rate=rate,
                )
            )
    return found


def _measure(options: Options, targets: Targets, connections: int, rate: int | None, peer: Peer) -> Sample:
    seconds = options.seconds if rate is None else options.rated_seconds(rate)
    return load.run(peer, targets(peer, connections), seconds, rate)


def classic_targets(peer: Peer, count: int) -> list[Target]:
    return [
        target(
            peer,
            member,
            "heartbeat",
            4,
            [
                {
                    "group_id": member.group_id,
                    "generation_id": member.generation_id,
                    "member_id": member.member_id,
                    "group_instance_id": None,
                }
            ],
        )
        for member in classic_members(peer, count)
    ]


def consumer_targets(peer: Peer, count: int) -> list[Target]:
    return [
        Target(*member.at, "consumer_group_heartbeat", 1, [member.frame])
        for member in consumer_members(peer, count)
    ]
