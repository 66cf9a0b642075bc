"""`groupd swarm push`: consumers whose coordinator pushes, and what their judge makes of it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

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
    bootstrap: Bootstrap = None,
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
    with attacked(bootstrap, kill_every, {}) as (brokers, kills):
        outcome = asyncio.run(Swarm(brokers, plan, f"push-{stamp()}").run(kills, console.print))
    tell(
        f"{outcome.registrations} registrations, {outcome.starts} starts, {outcome.answers} answers; "
        f"{outcome.committed} partitions with a committed offset",
        outcome.findings,
        kills,
    )


SCENARIO = OwnScenario(
    NAME,
    "Consumers whose coordinator pushes: they close, vanish and come back.",
    DEFAULTS,
    push,
)
