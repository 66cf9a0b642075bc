"""`groupd chaos`: faults of every kind on a tier under load, and a judge of what its clients were told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bench import run_names
from bench.interrupts import terminable
from bench.swarm.reports import EXIT_NOT_RUN, leave_with
from cluster.cli.common import JsonOption, console, examples, fail, print_json, unwrap_help
from cluster.cli.kafka import print_table
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from bench.chaos.scenario import Scenario
    from bench.chaos.state import State

DIRECTORY: Final = Path("groupd-chaos")
SEEDS: Final = 1_000_000

app = typer.Typer(
    no_args_is_help=True,
    help="Break a tier on purpose, under load, and see that nothing was lost.",
    rich_markup_mode="rich",
    epilog=examples("groupd chaos run", "groupd chaos list", "groupd chaos run --scenario long"),
)


@app.command(
    epilog=examples(
        "groupd chaos run",
        "groupd chaos run --scenario tour --minutes 10 --seed 7",
        "groupd chaos run --scenario kills --data-dir groupd-data",
        "groupd chaos run --scenario long --out groupd-chaos/long",
        "groupd chaos run --resume groupd-chaos/long",
    )
)
def run(
    scenario: Annotated[str, typer.Option(help="A name of `groupd chaos list`, or a .toml file.")] = "tour",
    minutes: Annotated[float | None, typer.Option(help="Instead of the scenario's end.", min=0.5)] = None,
    kills: Annotated[
        int | None, typer.Option(help="Until so many processes were killed; and --minutes, if given.", min=1)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed is the same schedule.", min=0)] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Of a running tier.  [default: a throw-away tier]", exists=True, file_okay=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A new directory.  [default: groupd-chaos/SCENARIO-TIME]")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the run in this directory.", exists=True, file_okay=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Attack a tier while a swarm works on it. Exit code 0: every promise was kept; 1: one was broken, or
    the tier did not come back; 2: one was not shown, or it could not run.

    Without options: five minutes of every kind of fault on a throw-away tier. Ctrl-C ends a run early: what
    was seen until then is judged by the same rules, and --resume goes on.
    """
    from bench.chaos import state as states
    from bench.chaos.swarm_process import CouldNotRun

    with _mendable():
        if resume is not None:
            directory, state = resume, states.read(resume).model_copy(update={"words": []})
        else:
            chosen = _scenario(scenario, minutes, kills)
            seed = SystemRandom().randrange(SEEDS) if seed is None else seed
            state = states.State(
                scenario=chosen,
                seed=seed,
                data_dir=data_dir and data_dir.resolve(),
                version=version("groupd"),
            )
            directory = out or DIRECTORY / f"{chosen.name}-{run_names.stamp()}"
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                raise TierError(f"--out {directory}: a new or an empty directory is needed")
            directory.mkdir(parents=True, exist_ok=True)
        is_interrupted = False
        with terminable():
            try:
                _carry_out(state, directory, quiet=as_json)
            except KeyboardInterrupt:
                is_interrupted = True
            except CouldNotRun as error:
                typer.echo(f"groupd: {error}", err=True)
    _end(directory, as_json=as_json, is_interrupted=is_interrupted)


@app.command("list", epilog=examples("groupd chaos list", "groupd chaos list --json"))
def list_(as_json: JsonOption = False) -> None:
    """List the scenarios that come with groupd, and the kinds of faults."""
    from bench.chaos import scenario as scenarios
    from bench.chaos.faults import KINDS

    with _mendable():
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


@app.command(epilog=examples("groupd chaos report groupd-chaos/tour-20261122-101500"))
def report(
    directory: Annotated[
        Path, typer.Argument(help="A run's directory.", metavar="DIR", exists=True, file_okay=False)
    ],
    as_json: JsonOption = False,
) -> None:
    """Judge a run again and write its report.html and report.json, of an interrupted run, too."""
    _end(directory, as_json=as_json)


def _scenario(name: str, minutes: float | None = None, kills: int | None = None) -> Scenario:
    """Raises BadScenario."""
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


def _carry_out(state: State, directory: Path, *, quiet: bool) -> None:
    from bench.chaos.run import run as carry_out
    from bench.chaos.screen import Screen

    shown = console if not quiet else type(console)(quiet=True)
    shown.print(f"{state.scenario.name}, seed {state.seed}, in {directory}", soft_wrap=True)
    with Screen(shown, state) as screen:
        carry_out(state, directory, screen)


def _end(directory: Path, *, as_json: bool, is_interrupted: bool = False) -> None:
    """Judge and report. Ends the command."""
    from bench.chaos.report import report as judge

    with _mendable():
        outcome = judge(directory, None if as_json else console)
    if as_json:
        typer.echo((directory / "report.json").read_text(encoding="utf-8"))
    else:
        outcome.tell(console)
    if is_interrupted:
        typer.echo(f"interrupted; it goes on with: groupd chaos run --resume {directory}", err=True)
    leave_with(outcome.status)


@contextmanager
def _mendable() -> Iterator[None]:
    """What the user can mend is a line, and exit code 2."""
    from bench.chaos.state import NoRun
    from bench.swarm.scenario_errors import BadScenario

    try:
        yield
    except (BadScenario, NoRun, TierError, OSError) as error:
        fail(str(error), EXIT_NOT_RUN)


unwrap_help(app)
