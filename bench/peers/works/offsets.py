"""Work 2: what committing offsets costs, as fast as it goes and at fixed rates, and fetching them."""

from __future__ import annotations

from functools import partial
from typing import Final

from bench.peers import load
from bench.peers.crowds import bench_topic, classic_members, target
from bench.peers.load import RISES, Target
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario

CONNECTIONS: Final = 200
COMMITTED: Final = (1, 10, 100)
"""How many partitions a request commits or fetches."""
FETCHED: Final = 100
RATES: Final = (125, 500, 2_000)
"""The rates of the open loops, in commits per second."""
RATED_PARTITIONS: Final = 10
RATED_CONNECTIONS: Final = 500
HEADING: Final = "Offsets, closed loop"
RATED_HEADING: Final = "Offsets, at a rate"
SHOWN: Final = ("cpu_us", "per_s")


def scenarios(options: Options) -> list[Scenario]:
    """The scenarios: closed loops over 200 members of 40 groups, and commits at fixed rates over 500 members.
    Before each rate a JVM gets its warming up at that rate."""
    goals = {("groupd-1", "cpu_us"): 35.0, ("groupd-3", "cpu_us"): 110.0}
    commits = [
        Scenario(
            work=2,
            heading=HEADING,
            label=f"OffsetCommit of {partitions}, {options.size(CONNECTIONS, 20)} connections",
            measure=partial(_commit, options, partitions),
            shown=SHOWN,
            warm_up="OffsetCommit",
            goals=goals if partitions == 10 else {},
        )
        for partitions in COMMITTED[: options.size(len(COMMITTED), 1)]
    ]
    fetch = Scenario(
        work=2,
        heading=HEADING,
        label=f"OffsetFetch of {FETCHED}, {options.size(CONNECTIONS, 20)} connections",
        measure=partial(_fetch, options),
        shown=SHOWN,
        warm_up="OffsetFetch",
    )
    return [*commits, fetch, *_rated(options)]


def _rated(options: Options) -> list[Scenario]:
    connections = options.size(RATED_CONNECTIONS, 50)
    return [
        Scenario(
            work=2,
            heading=RATED_HEADING,
            label=f"OffsetCommit of {RATED_PARTITIONS}, {rate:,}/s, {connections} connections",
            measure=partial(_commit_at, options, connections, rate),
            shown=("cpu_us", "p99_ms"),
            warm_up=f"OffsetCommit at {rate}/s",
            rate=rate,
        )
        for rate in (RATES if not options.quick else RATES[-1:])
    ]


def _commit_at(options: Options, connections: int, rate: int, peer: Peer) -> Sample:
    targets = commit_targets(peer, connections, RATED_PARTITIONS)
    return load.run(peer, targets, options.rated_seconds(rate), rate)


def _commit(options: Options, partitions: int, peer: Peer) -> Sample:
    return load.run(peer, commit_targets(peer, options.size(CONNECTIONS, 20), partitions), options.seconds)


def _fetch(options: Options, peer: Peer) -> Sample:
    """Measure fetches. Every member's group has committed each of the partitions before."""
    count = options.size(CONNECTIONS, 20)
    if "fetched" not in peer.kept:
        load.run(peer, commit_targets(peer, count, FETCHED), 0.5)
        peer.kept["fetched"] = True
    asked = [{"name": bench_topic(peer), "partition_indexes": tuple(range(FETCHED))}]
    targets = [
        target(peer, member, "offset_fetch", 7, [{"group_id": member.group_id, "topics": asked}])
        for member in classic_members(peer, count)
    ]
    return load.run(peer, targets, options.seconds)


def commit_targets(peer: Peer, count: int, partitions: int) -> list[Target]:
    """Return so many members that commit, each of them the same partitions of one topic, and higher offsets
    each time: one that goes back is an event of history, and consumers that read on have none."""
    topic = bench_topic(peer)
    return [
        target(peer, member, "offset_commit", 8, [member.commit_fields(topic, partitions, RISES)]).risen
        for member in classic_members(peer, count)
    ]
