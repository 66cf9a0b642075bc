"""`groupd swarm push`: consumers whose coordinator pushes, and what their judge makes of it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated

import typer

from bench.ground.run_names import stamp
from bench.ground.throwaway import Tier
from bench.push.swarm import Outcome, Plan, Swarm
from cluster.cli.common import console, examples

NAME = "push"
"""The scenario that has members, a judge and a command of its own."""
EXIT_NOT_FINE = 1
DEFAULTS = Plan()


def register(app: typer.Typer) -> None:
    app.command(
        "push",
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
    seconds: Annotated[float, typer.Option(help="How long consumers come and go.", min=1)] = DEFAULTS.seconds,
    groups: Annotated[
        int, typer.Option(help="Groups, each with a topic of its own.", min=1)
    ] = DEFAULTS.groups,
    members: Annotated[int, typer.Option(help="Consumers of a group.", min=1)] = DEFAULTS.members,
    partitions: Annotated[int, typer.Option(help="Partitions of a topic.", min=1)] = DEFAULTS.partitions,
    kill_every: Annotated[
        float, typer.Option(help="Seconds from one killed leader of a throw-away tier to the next; 0: none.")
    ] = 0.0,
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
    calm: Callable[[], None] = _stay
    with ExitStack() as stack:
        if bootstrap is None:
            tier = stack.enter_context(Tier(nodes=3))
            bootstrap = ",".join(f"127.0.0.1:{tier.port + number}" for number in range(3))
            if kill_every:
                calm = stack.enter_context(_Killing(tier, kill_every)).calm
        addresses = [(host, int(port)) for host, _, port in (x.rpartition(":") for x in bootstrap.split(","))]
        swarm = Swarm(addresses, plan, f"push-{stamp()}")
        outcome = asyncio.run(swarm.run(calm))
    _tell(outcome)
    if not outcome.is_fine:
        raise typer.Exit(EXIT_NOT_FINE)


Given = tuple[str | None, float | None, int | None, int | None]
"""What `groupd swarm run` was given: bootstrap, seconds, groups, and members of all groups."""


def instead_of(scenario: str, given: Given, seed: int) -> None:
    """Run it in the place of a scenario of `groupd swarm run` that has its name. Raises typer.Exit then."""
    if scenario != NAME:
        return
    bootstrap, seconds, groups, members = given
    groups = DEFAULTS.groups if groups is None else groups
    push(
        bootstrap,
        DEFAULTS.seconds if seconds is None else seconds,
        groups,
        DEFAULTS.members if members is None else max(members // groups, 1),
        DEFAULTS.partitions,
        0.0,
        seed,
    )
    raise typer.Exit


def _tell(outcome: Outcome) -> None:
    console.print(
        f"{outcome.registrations} registrations, {outcome.starts} starts, {outcome.answers} answers; "
        f"{outcome.committed} partitions with a committed offset"
    )
    for words in outcome.findings:
        console.print(f"wrong: {words}", markup=False)
    console.print("no promise was broken" if outcome.is_fine else f"{len(outcome.findings)} findings")


def _stay() -> None:
    console.print("everybody stays now")


class _Killing:
    """Kills leaders of a throw-away tier, one after the other, in a thread."""

    def __init__(self, tier: Tier, every_s: float) -> None:
        self._tier = tier
        self._every_s = every_s
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Killing:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def calm(self) -> None:
        """Kill nobody any more."""
        self._end()
        _stay()

    def _end(self) -> None:
        self._halt.set()
        self._thread.join()

    def _run(self) -> None:
        killed = 0
        while not self._halt.wait(self._every_s):
            leaders = [each for each in self._tier.replicas() if each.get("serving")]
            if leaders:
                leader = leaders[killed % len(leaders)]
                killed += 1
                console.print(f"killing the leader of partition {leader['partition']}")
                os.kill(leader["pid"], signal.SIGKILL)
