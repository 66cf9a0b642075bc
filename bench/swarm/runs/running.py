"""Carries a plan out and shows it meanwhile: what `groupd swarm run` and `replay` have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.swarm.runs.reports import EXIT_NOT_RUN
from cluster.cli.common import console, fail
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from bench.swarm.load.target import Target
    from bench.swarm.planning.plan import Plan
    from bench.swarm.rows.second import Second

DIRECTORY: Final = Path("groupd-swarm")
"""Where runs are kept by default."""
SEEDS: Final = 1_000_000


class How(NamedTuple):
    """How a plan is carried out and shown."""

    processes: int
    web_port: int | None
    metrics_port: int | None
    quiet: bool
    cleans_up: bool


def run_and_show(plan: Plan, aim: Target, directory: Path, how: How) -> Path:
    """Carry a plan out and show it. Raises typer.Exit, after one line, if it could not run."""
    from bench.swarm.load.driver import Launch, NoConsumerProtocol, Unreachable, run_swarm

    kafka = aim.kafka
    if how.web_port is not None and not how.quiet:
        console.print(f"locust's page: http://127.0.0.1:{how.web_port}")
    try:
        with ExitStack() as stack:
            looking = [stack.enter_context(looker) for looker in _lookers(plan, aim, directory, how)]
            launch = Launch(how.processes, how.web_port, kafka, aim.software, how.cleans_up)
            return run_swarm(
                plan, kafka.bootstrap, directory, launch, on_second=lambda second: _look(looking, second)
            )
    except NoConsumerProtocol as error:
        fail(f"{error}: choose a classic one, as --protocol cooperative-sticky", EXIT_NOT_RUN)
    except Unreachable as error:
        fail(str(error), EXIT_NOT_RUN)
    except KeyboardInterrupt:
        fail("interrupted before the swarm began", EXIT_NOT_RUN)


def _lookers(plan: Plan, aim: Target, directory: Path, how: How) -> Iterator[Any]:
    """The context managers that are called with every second of the run."""
    from bench.swarm.load.live import Live
    from bench.swarm.load.watch import Watch
    from bench.swarm.told.screen import Head, Screen

    bootstrap = aim.kafka.bootstrap
    if how.metrics_port is not None:
        live = Live(how.metrics_port, plan, directory, bootstrap)
        if not how.quiet:
            console.print(f"metrics: http://127.0.0.1:{live.port}/metrics", soft_wrap=True)
        yield live
    if not how.quiet:
        yield Screen(console, Head(plan.scenario, bootstrap, plan.seed, plan.duration_s, len(plan.members)))
    if aim.pids is not None:
        yield Watch(directory, aim.pids)


def _look(looking: Iterable[Callable[[Second], None]], second: Second) -> None:
    for look in looking:
        look(second)


def new_directory(directory: Path) -> Path:
    """Check that a directory is new: two runs in one would be judged as one. Raises TierError."""
    if (directory / "run.json").exists() or directory.is_file():
        raise TierError(f"--out {directory}: there is a run already; a new directory is needed")
    return directory
