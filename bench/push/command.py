"""`groupd swarm push`: consumers whose coordinator pushes, and what their judge makes of it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Annotated

import typer

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
from bench.push.swarm import Plan, Swarm
from cluster.cli.common import console, examples

NAME = "push"
"""The scenario that has members, a judge and a command of its own."""
DEFAULTS = Plan()


def register(app: typer.Typer) -> None:
    app.command(
        NAME,
        epilog=examples(
            "groupd swarm push",
            "groupd swarm push --bootstrap localhost:9092",
            "groupd swarm push --seconds 600 --groups 20 --kill-every 20",
        ),
    )(push)


def push(
    bootstrap: Annotated[
        str | None, typer.Option(help="A running tier, as host:port. (default a throw-away one)")
    ] = None,
    seconds: Seconds = DEFAULTS.seconds,
    groups: Groups = DEFAULTS.groups,
    members: Members = DEFAULTS.members,
    partitions: Partitions = DEFAULTS.partitions,
    kill_every: KillEvery = 0.0,
    seed: Annotated[int, typer.Option(help="Who comes and goes when.")] = DEFAULTS.seed,
) -> None:
    """Run consumers of groups whose coordinator pushes, and judge them: no partition has two owners, no
    commit is lost or goes back.

    Half of the consumers that go close as they should, the others vanish. `groupd swarm run push` is the
    same.
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
            tier = stack.enter_context(Tier(nodes=3))
            bootstrap = ",".join(f"127.0.0.1:{tier.port + number}" for number in range(3))
            kills = stack.enter_context(LeaderKills(tier, kill_every, console.print))
        swarm = Swarm(stack.enter_context(reaching(bootstrap)), plan, f"push-{stamp()}")
        outcome = asyncio.run(swarm.run(kills, console.print))
    tell(
        f"{outcome.registrations} registrations, {outcome.starts} starts, {outcome.answers} answers; "
        f"{outcome.committed} partitions with a committed offset",
        [*outcome.findings, *(() if kills is None else kills.findings)],
    )


def _run(asked: Asked) -> None:
    groups, members = SCENARIO.per_group(asked)
    seconds = DEFAULTS.seconds if asked.seconds is None else asked.seconds
    push(asked.bootstrap, seconds, groups, members, DEFAULTS.partitions, 0.0, asked.seed)


SCENARIO = OwnScenario(
    NAME,
    "Consumers whose coordinator pushes: they close, vanish and come back.",
    DEFAULTS.groups,
    DEFAULTS.members,
    DEFAULTS.seconds,
    _run,
    ALWAYS_TAKEN | {"bootstrap"},
)
