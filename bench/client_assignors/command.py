"""`groupd swarm client-assignors`: groups whose members assign, and what their judge makes of it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from bench.client_assignors.swarm import Plan, Swarm
from bench.consumers.judged import (
    Bootstrap,
    Groups,
    KillEvery,
    Members,
    Partitions,
    Seconds,
    attacked,
    tell,
)
from bench.consumers.own_scenario import OwnScenario
from bench.ground.run_names import stamp
from cluster.cli.common import console, examples

NAME = "client-assignors"
"""The scenario that has members, a judge and a command of its own."""
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
            "groupd swarm client-assignors --bootstrap localhost:9092",
            "groupd swarm client-assignors --seconds 600 --groups 20 --kill-every 20",
        ),
    )(client_assignors)


def client_assignors(
    bootstrap: Bootstrap = None,
    seconds: Seconds = DEFAULTS.seconds,
    groups: Groups = DEFAULTS.groups,
    members: Members = DEFAULTS.members,
    partitions: Partitions = DEFAULTS.partitions,
    kill_every: KillEvery = 0.0,
    seed: Annotated[int, typer.Option(help="Who comes, goes and computes how.")] = DEFAULTS.seed,
) -> None:
    """Run groups whose members assign, and judge them: no partition has two owners, no commit is lost or goes
    back, no wrong assignment is taken.

    Some members compute too slowly, wrongly, or vanish while they are at it. `groupd swarm run
    client-assignors` is the same.
    """
    plan = DEFAULTS._replace(
        seconds=seconds, groups=groups, members=members, partitions=partitions, seed=seed
    )
    with attacked(bootstrap, kill_every, SETTINGS) as (brokers, kills):
        outcome = asyncio.run(Swarm(brokers, plan, f"assign-{stamp()}").run(kills, console.print))
    ways = ", ".join(f"{number} {way}" for way, number in outcome.ways.items())
    tell(
        f"{outcome.members} consumers; computed: {ways}; {outcome.taken} assignments taken,"
        f" {outcome.refused} refused; {outcome.committed} partitions with a committed offset",
        outcome.findings,
        kills,
    )


SCENARIO = OwnScenario(
    NAME,
    "Groups whose members compute the assignment, some of them too slowly, wrongly, or never to an end.",
    DEFAULTS,
    client_assignors,
)
