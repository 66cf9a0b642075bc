"""CPU of a heartbeat with the lane and without: `python -m bench.tier.lane`.

Two tiers of one node stand side by side, which differ in `group.heartbeat.lane.enable` alone, and take the
same load in turns: 200 connections with one heartbeat outstanding each. CPU is user + system time of all
actors of the tier, by the heartbeats that were answered; the load generator's is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics

from bench.ground.steady_heartbeat import steady_heartbeat
from bench.ground.throwaway import Tier
from bench.peers import load
from bench.peers.generators import Generators
from bench.peers.load import Servers, Target
from bench.tier.basics import settle_groups
from cluster.wire import Wire, request_frame

GROUPS, MEMBERS_PER_GROUP = 40, 5
CONNECTIONS = GROUPS * MEMBERS_PER_GROUP
TOPIC = "lane"
SIDES = {"without": "false", "with": "true"}
"""The two tiers, and the setting of each."""
LOADING_S = {"classic": 20.0, "consumer": 2.0}
"""How long, in seconds, each tier takes each load before it counts: leaders load or compile the function
meanwhile."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tier.lane", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each tier takes each load")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        generators = stack.enter_context(contextlib.closing(Generators()))
        tiers = {name: stack.enter_context(_tier(flag)) for name, flag in SIDES.items()}
        for protocol, settle in (("classic", _classics), ("consumer", _consumers)):
            sides = {name: asyncio.run(settle(tier)) for name, tier in tiers.items()}
            figures: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(asked.rounds + 1):
                seconds = asked.seconds if number else LOADING_S[protocol]
                for name, targets in sides.items():
                    pids = tiers[name].pids()
                    sample = load.drive(generators, Servers(pids, pids), targets, seconds)
                    if number:
                        figures[name].append(sample.figures["cpu_us"])
            for name, found in figures.items():
                runs = ", ".join(f"{each:.1f}" for each in found)
                print(
                    f"{protocol} {name} the lane: median {statistics.median(found):.1f} us ({runs})",
                    flush=True,
                )


def _tier(flag: str) -> Tier:
    return Tier(
        *("--nodes", "1", "--replicas", "1", "--set", "group.initial.rebalance.delay.ms=300"),
        *("--set", f"group.heartbeat.lane.enable={flag}"),
    )


async def _classics(tier: Tier) -> list[Target]:
    members = await settle_groups(tier, "lane", GROUPS, MEMBERS_PER_GROUP)
    return [Target(m.host, m.port, "heartbeat", 4, [m.heartbeat_frame()]) for m in members]


async def _consumers(tier: Tier) -> list[Target]:
    """Make groups of one KIP-848 member each; return their steady heartbeats."""
    port = tier.port
    wire = await Wire.connect("127.0.0.1", port)
    topic = {"name": TOPIC, "num_partitions": 4, "replication_factor": 1, "assignments": [], "configs": []}
    await wire.call("create_topics", 7, topics=[topic], timeout=5_000, validate_only=False)
    await wire.close()
    return list(await asyncio.gather(*(_consumer(port, number) for number in range(CONNECTIONS))))


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


if __name__ == "__main__":
    main()
