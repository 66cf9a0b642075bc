"""The works of `groupd bench in-front`, by their numbers. What other peers are measured by is taken from
there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from bench.in_front import moving
from bench.in_front.moving import Extent
from bench.in_front.stand import in_turn
from bench.peers import load
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario
from bench.peers.works import big_group, failover, heartbeats, joins, offsets

HEARTBEATS: Final = 2_000
COMMITS: Final = 500
"""The rates of the steady load, in requests per second."""
COMMITTED: Final = 10
"""How many partitions a request commits."""
CONNECTIONS: Final = 500
INTERVAL_MS: Final = 1_000
TOPICS: Final = 10
"""The heartbeat interval of the KIP-848 group, in ms, and how many topics it reads."""


class Sizes(NamedTuple):
    """How much of everything there is."""

    groups: int = 10_000
    """How many groups are taken over."""
    offsets: int = 1_000_000
    """How many offsets they have committed."""
    failing: int = 300
    """How many groups there are when a leader is killed."""
    members: int = 100
    """How many members rebalance."""


QUICK: Final = Sizes(200, 2_000, 60, 20)


def steady(options: Options, sizes: Sizes) -> list[Scenario]:
    """The CPU of all processes under a constant load of heartbeats and commits."""
    rate = HEARTBEATS + COMMITS
    return [
        Scenario(
            work=1,
            heading="Steady load",
            label=f"{HEARTBEATS:,} heartbeats and {COMMITS} commits/s",
            measure=in_turn(partial(_steady, options)),
            shown=("core", "cpu_us", "p99_ms"),
            warm_up="steady load",
            rate=rate,
        )
    ]


def _steady(options: Options, peer: Peer) -> Sample:
    rate, count = HEARTBEATS + COMMITS, options.size(CONNECTIONS, 50)
    each = rate // COMMITS
    targets = heartbeats.classic_targets(peer, count - count // each)
    # One after the other they have their turns: of so many requests one is a commit.
    for number, target in enumerate(offsets.commit_targets(peer, count // each, COMMITTED)):
        targets.insert(number * each, target)
    sample = load.run(peer, targets, options.rated_seconds(rate), rate)
    figures = sample.figures
    return replace(sample, figures={**figures, "core": figures["cpu_us"] * figures["per_s"] / 1e4})


def rebalances(options: Options, sizes: Sizes) -> list[Scenario]:
    """The time in which a group of either protocol comes to rest."""
    members = sizes.members
    shape = big_group.Shape(members, TOPICS)
    steps = tuple(f"{step}:{figure}" for figure in ("seconds", "cpu_s") for step in big_group.STEPS)
    return [
        Scenario(
            work=2,
            heading="JoinGroup storm until stable",
            label=f"1 group of {members:,}",
            measure=in_turn(partial(joins.measure, 1, members)),
            shown=joins.SHOWN,
            warm_up="storm",
        ),
        Scenario(
            work=2,
            heading=f"KIP-848 group of {members:,} and "
            f"{TOPICS * big_group.PARTITIONS_EACH:,} partitions until stable",
            label=f"{INTERVAL_MS / 1000:g} s",
            measure=in_turn(partial(big_group.measure, shape, INTERVAL_MS)),
            shown=steps,
            warm_up="big group",
        ),
    ]


def failovers(options: Options, sizes: Sizes) -> list[Scenario]:
    """The time without service after a SIGKILL: of the broker that coordinates most of the groups, or of the
    process of the tier that does."""
    return [
        Scenario(
            work=3,
            heading="SIGKILL of a leader until heartbeats are served",
            label=f"{sizes.failing:,} groups",
            measure=in_turn(partial(failover.measure, sizes.failing)),
            shown=("p50_s", "max_s"),
        )
    ]


def moves(options: Options, sizes: Sizes) -> list[Scenario]:
    """The take-over and the way back, beside what Kafka itself takes to move groups between its brokers."""
    extent = Extent(sizes.groups, max(1, sizes.offsets // sizes.groups))
    return [
        Scenario(
            work=4,
            heading=f"{extent.groups:,} groups with {extent.groups * extent.each:,} offsets",
            label="moved",
            measure=partial(moving.measure, extent),
            shown=moving.SHOWN,
        )
    ]


WORKS: Final[Mapping[int, Callable[[Options, Sizes], list[Scenario]]]] = MappingProxyType(
    {1: steady, 2: rebalances, 3: failovers, 4: moves}
)


def scenarios(works: list[int], options: Options, sizes: Sizes) -> list[Scenario]:
    """Return the scenarios of these works."""
    return [scenario for number in works for scenario in WORKS[number](options, sizes)]
