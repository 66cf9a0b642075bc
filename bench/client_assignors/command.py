"""`groupd swarm client-assignors`: groups whose members assign, and what their judge makes of it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Annotated

import typer

from bench.client_assignors.swarm import Plan, Swarm
from bench.consumers.judged import (
    EXIT_NOT_RUN,
    Groups,
    KillEvery,
    Members,
    Partitions,
    Seconds,
    reaching,
    tell,
)
from bench.consumers.leader_kills import LeaderKills
from bench.consumers.own_scenario import ALWAYS_TAKEN, Asked, OwnScenario
from bench.ground.run_names import stamp
from bench.ground.throwaway import Tier
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
    bootstrap: Annotated[
        str | None, typer.Option(help="A running tier, as host:port,host:port. Without it one is started.")
    ] = None,
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
    kills = None
    if bootstrap is not None and kill_every:
        typer.echo("groupd: --kill-every kills leaders of a throw-away tier: leave --bootstrap out", err=True)
        raise typer.Exit(EXIT_NOT_RUN)
    with ExitStack() as stack:
        if bootstrap is None:
            flags = [text for name, value in SETTINGS.items() for text in ("--set", f"{name}={value}")]
            tier = stack.enter_context(Tier(*flags, nodes=3))
            bootstrap = ",".join(f"127.0.0.1:{tier.port + number}" for number in range(3))
            kills = stack.enter_context(LeaderKills(tier, kill_every, console.print))
        swarm = Swarm(stack.enter_context(reaching(bootstrap)), plan, f"assign-{stamp()}")
        outcome = asyncio.run(swarm.run(kills, console.print))
    ways = ", ".join(f"{number} {way}" for way, number in outcome.ways.items())
    tell(
        f"{outcome.members} consumers; computed: {ways}; {outcome.taken} assignments taken,"
        f" {outcome.refused} refused; {outcome.committed} partitions with a committed offset",
        [*outcome.findings, *(() if kills is None else kills.findings)],
    )


def _run(asked: Asked) -> None:
    groups, members = SCENARIO.per_group(asked)
    seconds = DEFAULTS.seconds if asked.seconds is None else asked.seconds
    client_assignors(asked.bootstrap, seconds, groups, members, DEFAULTS.partitions, 0.0, asked.seed)


SCENARIO = OwnScenario(
    NAME,
    "Groups whose members compute the assignment, some of them too slowly, wrongly, or never to an end.",
    DEFAULTS.groups,
    DEFAULTS.members,
    DEFAULTS.seconds,
    _run,
    ALWAYS_TAKEN | {"bootstrap"},
)
