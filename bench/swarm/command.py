"""`groupd swarm`: fake consumers in any number on any Kafka, and what a judge makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bench import run_names
from bench.interrupts import terminable
from bench.swarm import reports
from bench.swarm import scenario as scenarios
from bench.swarm.plan import PROTOCOLS
from bench.swarm.reports import EXIT_NOT_RUN, mendable
from bench.swarm.scenario import BadScenario, Scenario
from bench.swarm.target import BOOTSTRAP_DEFAULT, Target, Where, target
from cluster.cli.common import JsonOption, console, examples, fail, print_json, unwrap_help
from cluster.cli.kafka import CommandConfigOption, print_table
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from bench.swarm.plan import Plan
    from bench.swarm.second import Second

DIRECTORY: Final = Path("groupd-swarm")
SEEDS: Final = 1_000_000
DAYS_MAX: Final = 7

app = typer.Typer(
    no_args_is_help=True,
    help="Load any Kafka's group coordinator with swarms of fake consumers, and judge what it did.",
    rich_markup_mode="rich",
    epilog=examples("groupd swarm list", "groupd swarm run steady", "groupd swarm run mixed --web"),
)
ScenarioArgument = Annotated[
    str, typer.Argument(help="A name of `groupd swarm list`, or a .toml file.", metavar="SCENARIO")
]

TierOption = Annotated[
    int | None,
    typer.Option(help="Start a throw-away tier of so many nodes, and record its CPU and memory.", min=1),
]

BootstrapOption = Annotated[
    str | None, typer.Option(help=f"host:port of any Kafka (default {BOOTSTRAP_DEFAULT}).")
]
CleanupOption = Annotated[
    bool, typer.Option("--cleanup/--no-cleanup", help="Delete the run's groups and topics at its end.")
]


@app.command(
    epilog=examples(
        "groupd swarm run",
        "groupd swarm run rolling-deploy --minutes 5 --members 500",
        "groupd swarm run ten-thousand --tier 1 --processes 2",
        "groupd swarm run join-storm --bootstrap kafka-1:9092 --protocol cooperative-sticky",
        "groupd swarm run my.toml --seed 7 --processes 2 --web",
    )
)
def run(
    scenario: ScenarioArgument = "steady",
    bootstrap: BootstrapOption = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Of a running tier, whose CPU and memory are recorded, too.")
    ] = None,
    tier: TierOption = None,
    seed: Annotated[int | None, typer.Option(help="The same seed is the same plan.", min=0)] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Instead of the scenario's duration.", min=0.1, max=DAYS_MAX * 1_440)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="The same in seconds.", min=5, max=DAYS_MAX * 86_400)
    ] = None,
    members: Annotated[int | None, typer.Option(help="In all: scales the scenario.", min=1)] = None,
    groups: Annotated[int | None, typer.Option(help="In all: scales the scenario.", min=1)] = None,
    protocol: Annotated[
        str | None, typer.Option(help=f"Of all members: {', '.join(PROTOCOLS)}.", show_default=False)
    ] = None,
    processes: Annotated[int, typer.Option(help="That the members live in.", min=1)] = 1,
    members_per_connection: Annotated[
        int | None, typer.Option(help="Members of a process that share a connection.", min=1)
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Serve locust's page, too.")] = False,
    web_port: Annotated[int, typer.Option(help="Of locust's page.", min=1, max=65_535)] = 8089,
    out: Annotated[
        Path | None, typer.Option(help="A new directory (default groupd-swarm/SCENARIO-TIME).")
    ] = None,
    software: Annotated[str, typer.Option(help="What the server is, for the report.")] = "",
    cleanup: CleanupOption = True,
    command_config: CommandConfigOption = None,
    judged: Annotated[
        bool, typer.Option("--report/--no-report", help="Judge the run at its end, or leave that for later.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Run a swarm and judge it. Exit code 0: every promise was kept; 1: one was broken; 2: one was not shown,
    or the swarm could not run.

    Members join, heartbeat, commit and leave as Kafka's own clients do, and consume nothing. Ctrl-C ends a
    run early: what was done until then is judged by the same rules.
    """
    seed = SystemRandom().randrange(SEEDS) if seed is None else seed
    stamp = run_names.stamp()
    with mendable():
        chosen = scenarios.load(scenario).scaled(groups=groups, members=members)
        chosen = chosen.changed(
            duration_s=_duration_s(minutes, seconds),
            protocol=protocol,
            members_per_connection=members_per_connection,
        )
        plan = chosen.plan(seed, prefix=run_names.prefix(stamp))
        directory = _new_directory(out or DIRECTORY / f"{chosen.name}-{stamp}")
        with terminable(), target(Where(bootstrap, data_dir, tier), command_config) as aim:
            aim = aim._replace(software=software or aim.software)
            directory = _run(
                plan, aim, directory, processes, web_port if web else None, quiet=as_json, cleans_up=cleanup
            )
    if judged:
        reports.tell(directory, as_json=as_json)


@app.command("list", epilog=examples("groupd swarm list", "groupd swarm list --json"))
def list_(as_json: JsonOption = False) -> None:
    """List the scenarios that come with groupd."""
    with mendable():
        known = [scenarios.load(name) for name in scenarios.names()]
    if as_json:
        print_json([_summary(each) for each in known])
        return
    rows = [
        (
            each.name,
            sum(table.count for table in each.groups),
            each.members,
            f"{each.duration_s:g} s",
            each.about,
        )
        for each in known
    ]
    print_table(("SCENARIO", "GROUPS", "MEMBERS", "TAKES", "WHAT"), rows)


@app.command(epilog=examples("groupd swarm show steady", "groupd swarm show steady > mine.toml"))
def show(scenario: ScenarioArgument) -> None:
    """Print a scenario's file, to make another of it."""
    with mendable():
        typer.echo(scenarios.read(scenario), nl=False)


def _run(
    plan: Plan,
    aim: Target,
    directory: Path,
    processes: int,
    web_port: int | None,
    *,
    quiet: bool,
    cleans_up: bool,
) -> Path:
    """Raises typer.Exit with one line if it could not run."""
    from bench.swarm.driver import NoConsumerProtocol, Unreachable, run_swarm
    from bench.swarm.screen import Head, Screen
    from bench.swarm.watch import Watch

    kafka = aim.kafka
    head = Head(plan.scenario, kafka.bootstrap, plan.seed, plan.duration_s, len(plan.members))
    if web_port is not None and not quiet:
        console.print(f"locust's page: http://127.0.0.1:{web_port}")
    try:
        with ExitStack() as stack:
            looking: list[Callable[[Second], None]] = []
            if not quiet:
                looking.append(stack.enter_context(Screen(console, head)))
            if aim.pids is not None:
                looking.append(stack.enter_context(Watch(directory, aim.pids)))
            return run_swarm(
                plan,
                kafka.bootstrap,
                directory,
                processes=processes,
                web_port=web_port,
                on_second=lambda second: _look(looking, second),
                security=kafka,
                software=aim.software,
                cleans_up=cleans_up,
            )
    except NoConsumerProtocol as error:
        fail(f"{error}: choose a classic one, as --protocol cooperative-sticky", EXIT_NOT_RUN)
    except Unreachable as error:
        fail(str(error), EXIT_NOT_RUN)
    except KeyboardInterrupt:
        fail("interrupted before the swarm began", EXIT_NOT_RUN)


def _look(looking: Iterable[Callable[[Second], None]], second: Second) -> None:
    for look in looking:
        look(second)


def _duration_s(minutes: float | None, seconds: float | None) -> float | None:
    if minutes is not None and seconds is not None:
        raise BadScenario("one of --minutes and --seconds says how long, not both")
    return seconds if minutes is None else minutes * 60


def _new_directory(directory: Path) -> Path:
    """Raises TierError: two runs in one directory would be judged as one."""
    if (directory / "run.json").exists() or directory.is_file():
        raise TierError(f"--out {directory}: there is a run already; a new directory is needed")
    return directory


def _summary(scenario: Scenario) -> dict[str, Any]:
    return scenario.model_dump(mode="json") | {"members": scenario.members}


reports.register(app)
unwrap_help(app)
