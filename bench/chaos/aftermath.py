"""`groupd chaos report`, `compare` and `shrink`, and how every chaos command carries runs out and ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.ground.interrupts import terminable
from bench.swarm.planning.thresholds import BadThreshold
from bench.swarm.runs import flags
from bench.swarm.runs.reports import EXIT_NOT_RUN, leave_with
from bench.swarm.told.ci_files import Asked
from cluster.cli.common import JsonOption, console, examples, fail, print_json
from cluster.cli.tables import print_table
from cluster.tier_file import TierError
from storage.history.judge.findings import BROKEN

if TYPE_CHECKING:
    from bench.chaos.outcome import Outcome
    from bench.chaos.state import State

RunArgument = Annotated[
    Path, typer.Argument(help="A run's directory.", metavar="DIR", exists=True, file_okay=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands that look at runs that were made."""
    app.command(epilog=examples("groupd chaos report groupd-chaos/tour-20261122-101500"))(report)
    app.command(
        epilog=examples("groupd chaos compare ours kafka", "groupd chaos compare ours kafka --markdown")
    )(compare)
    app.command(
        epilog=examples(
            "groupd chaos shrink groupd-chaos/tour-20261122-101500",
            "groupd chaos shrink groupd-chaos/tour-20261122-101500 --tries 3 --minutes 60",
        )
    )(shrink)


def report(
    directory: RunArgument,
    threshold: flags.Thresholds = None,
    junit: flags.Junit = None,
    summary: flags.Summary = None,
    as_json: JsonOption = False,
) -> None:
    """Judge a run again and write its report.html and report.json, of an interrupted run, too."""
    asked = Asked(tuple(threshold or ()), junit, summary)
    with mendable():
        asked.check()
    end(directory, asked, as_json=as_json)


def compare(
    a: RunArgument,
    b: Annotated[
        Path, typer.Argument(help="The other run's directory.", metavar="DIR", exists=True, file_okay=False)
    ],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of text.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Set two runs of the same schedule side by side, by kind of fault, as a tier's and Kafka's."""
    from bench.chaos import compare as comparing

    try:
        compared = comparing.compared(_results(a), _results(b))
    except comparing.NotTheSame as error:
        fail(str(error), EXIT_NOT_RUN)
    except KeyError as error:
        fail(f"a report has no {error}: `groupd chaos report DIR` writes it anew", EXIT_NOT_RUN)
    if as_json:
        print_json(compared.plain())
        return
    if markdown:
        typer.echo(comparing.markdown(compared))
        return
    print_table(console, comparing.HEADINGS, (row.cells for row in compared.rows))
    for name, verdict in zip(compared.names, compared.verdicts, strict=True):
        typer.echo(f"{name}: {verdict}")
    for remark in compared.remarks:
        typer.echo(remark)


def shrink(
    directory: RunArgument,
    tries: Annotated[
        int,
        typer.Option(help="How many runs of a list of faults must pass before it counts as harmless.", min=1),
    ] = 2,
    minutes: Annotated[float, typer.Option(help="Begin no run after so many minutes.", min=1)] = 120,
) -> None:
    """Find the fewest faults of a failed run that still fail, by running fewer and fewer of them. Exit code
    0: here they are, in DIR/shrunk.json; 2: the run did not fail, or does not fail again."""
    from bench.chaos import state as states
    from bench.chaos.shrink import Shrinking

    with mendable():
        state = states.read(directory)
        if _results(directory)["status"] != BROKEN:
            raise TierError(f"{directory} broke nothing: there is nothing to shrink")
        if not state.played:
            raise TierError(f"{directory} has no fault that could be played again")
    found = Shrinking(state, directory, _trial, typer.echo).shrink(tries, time.monotonic() + minutes * 60)
    if not found.broke:
        fail(
            f"its {len(state.played)} faults did not fail again in {tries} runs: try more --tries",
            EXIT_NOT_RUN,
        )
    if not found.faults:
        typer.echo(f"It fails without any fault, by the swarm alone: {found.broke}")
        return
    rest = "none of which can be left out" if found.is_minimal else "time was up before fewer could be tried"
    typer.echo(f"{len(found.faults)} of {len(state.played)} faults still fail, {rest}:")
    for fault in found.faults:
        typer.echo(f"  {fault.at_s:7.1f} s  {fault.kind}  {fault.target}, {fault.for_s:.1f} s")
    typer.echo(f"It breaks: {found.broke}")
    typer.echo(f"Again: groupd chaos run --schedule {found.path}{_where(state)}")


def _where(state: State) -> str:
    """The flags that name the target of a run again."""
    if state.data_dir is not None:
        return f" --data-dir {state.data_dir}"
    return f" --target {state.target} --brokers {state.brokers}" if state.target != "tier" else ""


def _trial(state: State, directory: Path) -> Outcome:
    """Carry out one trial of a search and judge it. Raises KeyboardInterrupt."""
    from bench.chaos.report import report as judge

    if carry_out(state, directory, quiet=True):
        raise KeyboardInterrupt
    return judge(directory)


def _results(directory: Path) -> dict[str, Any]:
    """The results of a run, which is reported now if it was not before. Ends the command if there is none."""
    from bench.chaos.report import report as judge

    path = directory / "report.json"
    with mendable():
        if not path.exists():
            judge(directory)
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def carry_out(state: State, directory: Path, *, quiet: bool) -> bool:
    """Carry a run out. Returns whether it was interrupted. What it could not do is told, and kept in the
    run's state."""
    from bench.chaos.run import run
    from bench.chaos.screen import Screen
    from bench.chaos.swarm_process import CouldNotRun

    shown = console if not quiet else type(console)(quiet=True)
    shown.print(f"{state.scenario.name}, seed {state.seed}, in {directory}", soft_wrap=True)
    with terminable():
        try:
            with Screen(shown, state) as screen:
                run(state, directory, screen)
        except KeyboardInterrupt:
            return True
        except CouldNotRun as error:
            typer.echo(f"groupd: {error}", err=True)
    return False


def end(directory: Path, asked: Asked, *, as_json: bool, is_interrupted: bool = False) -> None:
    """Judge and report a run. Ends the command unless every promise was shown to be kept."""
    from bench.chaos.report import report as judge

    with mendable():
        outcome = judge(directory, None if as_json else console, asked.thresholds)
        asked.write(json.loads((directory / "report.json").read_text(encoding="utf-8")), (outcome.done,))
    if as_json:
        typer.echo((directory / "report.json").read_text(encoding="utf-8"))
    else:
        outcome.tell(console)
    if is_interrupted:
        typer.echo(f"interrupted; it goes on with: groupd chaos run --resume {directory}", err=True)
    leave_with(outcome.status)


@contextmanager
def mendable() -> Iterator[None]:
    """Tell errors that the user can mend in one line, with exit code 2."""
    from bench.chaos.state import NoRun
    from bench.swarm.planning.scenario_errors import BadScenario

    try:
        yield
    except (BadScenario, BadThreshold, NoRun, TierError, OSError) as error:
        fail(str(error), EXIT_NOT_RUN)
