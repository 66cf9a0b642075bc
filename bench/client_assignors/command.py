"""`groupd swarm client-assignors`: groups whose members assign, and what their judge makes of it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack
from typing import Annotated

import typer

from bench.client_assignors.swarm import Outcome, Plan, Swarm
from bench.ground.run_names import stamp
from bench.ground.throwaway import Tier
from cluster.cli.common import console, examples

NAME = "client-assignors"
"""The scenario that has members, a judge and a command of its own."""
EXIT_NOT_FINE = 1
DEFAULTS = Plan()
SETTINGS = {
    "group.consumer.min.session.timeout.ms": round(DEFAULTS.session_s * 1000),
    "group.consumer.session.timeout.ms": round(DEFAULTS.session_s * 1000),
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.client.assignor.timeout.ms": 2_000,
}
"""What the throw-away tier is started with: short times, so that much happens."""


def register(app: typer.Typer) -> None:
    app.command(
        NAME,
        epilog=examples(
            "groupd swarm client-assignors",
            "groupd swarm client-assignors --seconds 600 --groups 20 --kill-every 20",
        ),
    )(client_assignors)


def client_assignors(
    seconds: Annotated[float, typer.Option(help="How long consumers come and go.", min=1)] = DEFAULTS.seconds,
    groups: Annotated[
        int, typer.Option(help="Groups, each with a topic of its own.", min=1)
    ] = DEFAULTS.groups,
    members: Annotated[int, typer.Option(help="Consumers of a group.", min=1)] = DEFAULTS.members,
    partitions: Annotated[int, typer.Option(help="Partitions of a topic.", min=1)] = DEFAULTS.partitions,
    kill_every: Annotated[
        float, typer.Option(help="Seconds from one killed leader to the next; 0: none.", min=0)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Who comes, goes and computes how.")] = DEFAULTS.seed,
) -> None:
    """Run groups whose members assign on a throw-away tier, and judge them: no partition has two owners, no
    commit is lost or goes back, no wrong assignment is taken.

    Some members compute too slowly, wrongly, or vanish while they are at it. `groupd swarm run
    client-assignors` is the same.
    """
    plan = DEFAULTS._replace(
        seconds=seconds, groups=groups, members=members, partitions=partitions, seed=seed
    )
    with ExitStack() as stack:
        flags = [text for name, value in SETTINGS.items() for text in ("--set", f"{name}={value}")]
        tier = stack.enter_context(Tier(*flags, nodes=3))
        addresses = [("127.0.0.1", tier.port + number) for number in range(3)]
        outcome = asyncio.run(_run(tier, Swarm(addresses, plan, f"assign-{stamp()}"), kill_every))
    _tell(outcome)
    if not outcome.is_fine:
        raise typer.Exit(EXIT_NOT_FINE)


def instead_of(scenario: str, seconds: float | None, groups: int | None, seed: int) -> None:
    """Run it in the place of a scenario of `groupd swarm run` that has its name. Raises typer.Exit then."""
    if scenario != NAME:
        return
    client_assignors(
        DEFAULTS.seconds if seconds is None else seconds,
        DEFAULTS.groups if groups is None else groups,
        DEFAULTS.members,
        DEFAULTS.partitions,
        0.0,
        seed,
    )
    raise typer.Exit


async def _run(tier: Tier, swarm: Swarm, kill_every_s: float) -> Outcome:
    killing = asyncio.create_task(_kill(tier, swarm, kill_every_s)) if kill_every_s else None
    try:
        return await swarm.run(console.print)
    finally:
        if killing is not None:
            killing.cancel()


async def _kill(tier: Tier, swarm: Swarm, every_s: float) -> None:
    """Kill leaders of the tier, one after the other, as long as consumers come and go."""
    killed = 0
    while True:
        await asyncio.sleep(every_s)
        replicas = await asyncio.to_thread(tier.replicas)
        leaders = [each for each in replicas if each.get("serving")]
        if swarm.is_over:
            return
        if leaders:
            leader = leaders[killed % len(leaders)]
            killed += 1
            console.print(f"killing the leader of partition {leader['partition']}")
            os.kill(leader["pid"], signal.SIGKILL)


def _tell(outcome: Outcome) -> None:
    ways = ", ".join(f"{number} {way}" for way, number in outcome.ways.items())
    console.print(
        f"{outcome.members} consumers; computed: {ways}; {outcome.taken} assignments taken,"
        f" {outcome.refused} refused; {outcome.committed} partitions with a committed offset"
    )
    for words in outcome.findings:
        console.print(f"wrong: {words}", markup=False)
    console.print("no promise was broken" if outcome.is_fine else f"{len(outcome.findings)} findings")
