"""`groupd chaos`: faults of every kind on a tier or Kafka under load, and a judge of what clients heard."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from bench.chaos import aftermath
from bench.chaos.aftermath import carry_out, end, mendable
from bench.ground import run_names
from bench.swarm.runs import flags
from bench.swarm.told.ci_files import Asked
from cluster.cli.common import JsonOption, examples, print_json
from cluster.cli.kafka import print_table
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from bench.chaos.scenario import Scenario
    from bench.chaos.state import State

DIRECTORY: Final = Path("groupd-chaos")
SEEDS: Final = 1_000_000

app = typer.Typer(
    no_args_is_help=True,
    help="Break a tier, or Kafka, on purpose, under load, and see that nothing was lost.",
    rich_markup_mode="rich",
    epilog=examples("groupd chaos run", "groupd chaos list", "groupd chaos run --scenario long"),
)


@app.command(
    epilog=examples(
        "groupd chaos run",
        "groupd chaos run --scenario tour --minutes 10 --seed 7",
        "groupd chaos run --scenario kills --data-dir groupd-data",
        "groupd chaos run --scenario both --target kafka",
        "groupd chaos run --schedule groupd-chaos/long/schedule.json",
        "groupd chaos run --resume groupd-chaos/long",
    )
)
def run(
    scenario: Annotated[
        str | None, typer.Option(help="A name of `groupd chaos list`, or a .toml file (default tour).")
    ] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Play the schedule.json of a run again.", dir_okay=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="End after so many minutes.", min=0.5)] = None,
    kills: Annotated[
        int | None, typer.Option(help="End after so many kills; with --minutes, not before them.", min=1)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of the schedule.", min=0)] = None,
    target: Annotated[
        Literal["tier", "kafka"], typer.Option(help="Attack a tier of groupd, or Apache Kafka's brokers.")
    ] = "tier",
    data_dir: Annotated[
        Path | None,
        typer.Option(help="A running tier.  [default: a throw-away tier]", exists=True, file_okay=False),
    ] = None,
    brokers: Annotated[int, typer.Option(help="How many brokers Kafka has.", min=3, max=9)] = 3,
    kafka_home: Annotated[
        Path | None,
        typer.Option(envvar="KAFKA_HOME", help="A Kafka 4 distribution (default: Maven fetches its jars)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's new directory.  [default: groupd-chaos/SCENARIO-TIME]")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this directory.", exists=True, file_okay=False),
    ] = None,
    threshold: flags.Thresholds = None,
    junit: flags.Junit = None,
    summary: flags.Summary = None,
    as_json: JsonOption = False,
) -> None:
    """Attack a tier, or Kafka, while a swarm works on it. Exit code 0: every promise was kept; 1: one was
    broken, or the target did not come back; 2: one was not shown, or it could not run.

    Without options: five minutes of every kind of fault on a throw-away tier. Ctrl-C ends a run early: what
    was seen until then is judged by the same rules, and --resume goes on.
    """
    from bench.chaos import state as states

    asked = Asked(tuple(threshold or ()), junit, summary)
    with mendable():
        asked.check()
        if resume is not None:
            directory, state = resume, states.read(resume).model_copy(update={"words": []})
        else:
            chosen = _planned(scenario, schedule, minutes, kills, seed)
            _check_target(target, data_dir, kafka_home, in_front=chosen.scenario.in_front)
            where = {"target": target, "data_dir": data_dir and data_dir.resolve(), "brokers": brokers}
            home = kafka_home and kafka_home.resolve()
            state = chosen.model_copy(update={**where, "kafka_home": home})
            directory = _new_directory(out or DIRECTORY / f"{state.scenario.name}-{run_names.stamp()}")
    is_interrupted = carry_out(state, directory, quiet=as_json)
    end(directory, asked, as_json=as_json, is_interrupted=is_interrupted)


@app.command("list", epilog=examples("groupd chaos list", "groupd chaos list --json"))
def list_(as_json: JsonOption = False) -> None:
    """List the scenarios that come with groupd, and the kinds of faults."""
    from bench.chaos import scenario as scenarios
    from bench.chaos.faults import KINDS

    with mendable():
        known = [_scenario(name) for name in scenarios.names()]
    if as_json:
        kinds = [
            {"name": k.name, "about": k.about, "reach": k.reach, "needs": sorted(k.needs)}
            for k in KINDS.values()
        ]
        print_json({"scenarios": [each.model_dump(mode="json") for each in known], "faults": kinds})
        return
    print_table(("SCENARIO", "TAKES", "WHAT"), [(each.name, _takes(each), each.about) for each in known])
    typer.echo()
    rows = [(kind.name, kind.reach, ", ".join(sorted(kind.needs)), kind.about) for kind in KINDS.values()]
    print_table(("FAULT", "TAKES AWAY", "NEEDS", "WHAT"), rows)


def _planned(
    scenario: str | None,
    schedule: Path | None,
    minutes: float | None,
    kills: int | None,
    seed: int | None,
) -> State:
    """The planned run, by scenario or by a schedule's file. Raises BadScenario, TierError."""
    from bench.chaos import schedule_file
    from bench.chaos.faults import KINDS
    from bench.chaos.state import State

    if schedule is None:
        seed = SystemRandom().randrange(SEEDS) if seed is None else seed
        return State(scenario=_scenario(scenario or "tour", minutes, kills), seed=seed, version=_version())
    if any(given is not None for given in (scenario, minutes, kills, seed)):
        raise TierError("--schedule says all: leave --scenario, --minutes, --kills and --seed out")
    read = schedule_file.read(schedule, KINDS)
    return State(scenario=read.scenario, seed=read.seed, fixed=list(read.faults), version=_version())


def _check_target(target: str, data_dir: Path | None, home: Path | None, *, in_front: bool) -> None:
    """Check, before anything is started, that the target is one, and that Kafka can be started here if it has
    brokers. Raises TierError."""
    from bench.chaos import state as states
    from bench.peers import kafka_nodes

    if target == states.KAFKA and data_dir is not None:
        raise TierError("--target kafka starts brokers of its own: leave --data-dir out")
    if target != states.KAFKA and (not in_front or data_dir is not None):
        return
    if missing := kafka_nodes.missing(home):
        raise TierError(f"Kafka cannot be started here: {missing}")


def _version() -> str:
    return version("groupd")


def _new_directory(directory: Path) -> Path:
    """Check that a directory is new. Raises TierError."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise TierError(f"--out {directory}: a new or an empty directory is needed")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _scenario(name: str, minutes: float | None = None, kills: int | None = None) -> Scenario:
    """Read a scenario, with the flags' minutes and kills. Raises BadScenario."""
    from bench.chaos import scenario as scenarios
    from bench.chaos.faults import KINDS

    chosen = scenarios.load(name, KINDS)
    if minutes is None and kills is None:
        return chosen
    return chosen.model_copy(update={"minutes": minutes, "kills": kills})


def _takes(scenario: Scenario) -> str:
    minutes = f"{scenario.minutes:g} min" if scenario.minutes is not None else ""
    kills = f"{scenario.kills:,} kills" if scenario.kills is not None else ""
    return " and ".join(filter(None, (kills, minutes)))


aftermath.register(app)
