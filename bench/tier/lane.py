"""CPU of a heartbeat, and of a commit, with the lane and without: `python -m bench.tier.lane`.

Two tiers of one node stand side by side, which differ in `group.heartbeat.lane.after` alone, and take the
same loads in turns:

* classic, consumer: 200 connections with one member and one heartbeat outstanding each;
* shared: 8 connections of software whose heartbeats may be held, with 25 classic members each;
* held: 600 such connections with one classic member each, every 3 seconds;
* commits: 200 connections with one classic member and one OffsetCommit of 10 outstanding each.

CPU is user + system time of all actors of the tier, by the requests that were answered; the load
generator's is not in it. It says something only beside the other tier's of the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from actors.network.wire import Wire, request_frame
from bench.ground.steady_heartbeat import steady_heartbeat
from bench.ground.throwaway import Tier
from bench.peers import load
from bench.peers.generators import Generators
from bench.peers.load import Servers, Target
from bench.peers.members import Member
from bench.tier.basics import settle_groups

MEMBERS: Final = 200
HELD_MEMBERS, HELD_SPACING_S = 600, 3.0
TOPIC: Final = "lane"
COMMITTED: Final = "lane-commits"
COMMITTED_PARTITIONS: Final = 10
CONSUMER_JOIN_S: Final = 30.0
JOINS_AT_ONCE: Final = 20
LOADING_S: Final = 20.0
"""How much longer each tier takes the first load before it counts: leaders load or compile the function."""
SIDES: Final = {"without": 0, "with": 5_000}
"""The two tiers, and the setting of each."""
JAVA: Final = request_frame(
    *("api_versions", 3, 1, "lane"),
    {"client_software_name": "apache-kafka-java", "client_software_version": "4.4.0"},
)
"""What has a client's heartbeats held."""


class Case(NamedTuple):
    """A load."""

    name: str
    settle: Callable[[Tier], Awaitable[list[Target]]]
    ramp_s: float
    """How long each tier takes it before it counts."""
    rate: float | None
    """How many heartbeats a second; None: a closed loop."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tier.lane", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each tier takes each load")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load; held ones take 9 at least")
    parser.add_argument("--only", choices=[case.name for case in CASES], help="one load")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        generators = stack.enter_context(contextlib.closing(Generators()))
        tiers = {name: stack.enter_context(_tier(after)) for name, after in SIDES.items()}
        loading_s = LOADING_S
        for case in CASES:
            if asked.only in (None, case.name):
                _measure(case._replace(ramp_s=case.ramp_s + loading_s), tiers, generators, asked)
                loading_s = 0.0


def _measure(case: Case, tiers: dict[str, Tier], generators: Generators, asked: argparse.Namespace) -> None:
    sides = {name: asyncio.run(_settled(case, tier)) for name, tier in tiers.items()}
    seconds = asked.seconds if case.rate is None else max(asked.seconds, 3 * HELD_SPACING_S)
    figures: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(asked.rounds + 1):
        for name, targets in sides.items():
            pids = tiers[name].pids()
            took_s = seconds if number else case.ramp_s
            sample = load.drive(generators, Servers(pids, pids), targets, took_s, case.rate)
            if number:
                figures[name].append(sample.figures["cpu_us"])
    for name, found in figures.items():
        runs = ", ".join(f"{each:.1f}" for each in found)
        median = statistics.median(found)
        print(f"{case.name} {name} the lane: median {median:.1f} us ({runs})", flush=True)


async def _settled(case: Case, tier: Tier) -> list[Target]:
    return await case.settle(tier)


def _tier(after: int) -> Tier:
    return Tier(
        *("--nodes", "1", "--replicas", "1", "--set", "group.initial.rebalance.delay.ms=300"),
        *("--set", f"group.heartbeat.lane.after={after}"),
    )


def _target(members: list[Member], opening: tuple[bytes, ...] = ()) -> Target:
    """Return a connection on which these members of one group take turns."""
    frames = [member.heartbeat_frame() for member in members]
    return Target(members[0].host, members[0].port, "heartbeat", 4, frames, opening)


async def _classics(tier: Tier) -> list[Target]:
    return [_target([member]) for member in await settle_groups(tier, "classic", MEMBERS // 5, 5)]


async def _shared(tier: Tier) -> list[Target]:
    members = await settle_groups(tier, "shared", MEMBERS // 25, 25)
    return [_target(members[first : first + 25], (JAVA,)) for first in range(0, MEMBERS, 25)]


async def _held(tier: Tier) -> list[Target]:
    members = await settle_groups(tier, "held", HELD_MEMBERS // 5, 5)
    return [_target([member], (JAVA,)) for member in members]


async def _committers(tier: Tier) -> list[Target]:
    await _create(tier.port, COMMITTED, COMMITTED_PARTITIONS)
    members = await settle_groups(tier, "commits", MEMBERS // 5, 5)
    return [
        Target(
            *(member.host, member.port, "offset_commit", 8),
            [member.commit_frame(COMMITTED, COMMITTED_PARTITIONS, load.RISES)],
        ).risen
        for member in members
    ]


async def _create(port: int, name: str, partitions: int) -> None:
    wire = await Wire.connect("127.0.0.1", port)
    alone = {"replication_factor": 1, "assignments": [], "configs": []}
    topic = {"name": name, "num_partitions": partitions, **alone}
    await wire.call("create_topics", 7, topics=[topic], timeout=5_000, validate_only=False)
    await wire.close()


async def _consumers(tier: Tier) -> list[Target]:
    """Make groups of one KIP-848 member each; return their steady heartbeats."""
    port = tier.port
    await _create(port, TOPIC, 4)
    targets: list[Target] = []
    for first in range(0, MEMBERS, JOINS_AT_ONCE):
        async with asyncio.timeout(CONSUMER_JOIN_S):
            joining = (_consumer(port, first + number) for number in range(JOINS_AT_ONCE))
            targets += await asyncio.gather(*joining)
    return targets


async def _consumer(port: int, number: int) -> Target:
    """Join a group, and acknowledge what it gives."""
    fields = steady_heartbeat(f"lane-consumer-{number}", f"member-{number}", 0)
    terms = {"rebalance_timeout": 300_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
    wire = await Wire.connect("127.0.0.1", port)
    answer = await wire.call("consumer_group_heartbeat", 1, **{**fields, **terms})
    while answer["assignment"] is not None:
        fields["member_epoch"] = answer["member_epoch"]
        owned = {"topic_partitions": answer["assignment"]["topic_partitions"]}
        answer = await wire.call("consumer_group_heartbeat", 1, **{**fields, **owned})
    await wire.close()
    frame = request_frame("consumer_group_heartbeat", 1, 1, "wire", fields)
    return Target("127.0.0.1", port, "consumer_group_heartbeat", 1, [frame])


CASES: Final = (
    Case("classic", _classics, 2.0, None),
    Case("consumer", _consumers, 2.0, None),
    Case("shared", _shared, 2.0, None),
    Case("held", _held, 4 * HELD_SPACING_S, HELD_MEMBERS / HELD_SPACING_S),
    Case("commits", _committers, 2.0, None),
)


if __name__ == "__main__":
    main()
