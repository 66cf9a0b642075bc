"""`groupd swarm search` finds the largest load that a coordinator carries within limits."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bench.ground import run_names
from bench.ground.interrupts import terminable
from bench.swarm.planning import scenario as scenarios
from bench.swarm.planning.scenario import BadScenario
from bench.swarm.planning.thresholds import BadThreshold, parse_all
from bench.swarm.runs import flags
from bench.swarm.runs.reports import mendable
from bench.swarm.runs.running import DIRECTORY, SEEDS
from cluster.cli.common import JsonOption, examples

if TYPE_CHECKING:
    from bench.swarm.runs.searched import Wanted

LEAST: Final = 100
MOST: Final = 20_000
SECONDS: Final = 60.0


class By(StrEnum):
    """What a search scales."""

    MEMBERS = "members"
    COMMITS = "commits"


ByOption = Annotated[
    By,
    typer.Option(help="What the load is: members, or commits per second of the same members."),
]
FromOption = Annotated[int, typer.Option("--from", help="The smallest load to try.", min=1, max=10_000_000)]
ToOption = Annotated[int, typer.Option("--to", help="The largest load to try.", min=1, max=10_000_000)]
ToleranceOption = Annotated[
    str, typer.Option(help="The share by which the answer may be too small.", metavar="PERCENT")
]
ThresholdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        help="A limit that a load has to keep, as 'p99(Heartbeat) < 50ms'; again for more. Default: errors "
        "<= 0 and, where members commit, p99(OffsetCommit) < 100ms.",
    ),
]
SecondsOption = Annotated[
    float,
    typer.Option(help="The seconds of each probe.", min=flags.SECONDS_LEAST, max=flags.DAYS_MAX * 86_400),
]
MinutesOption = Annotated[
    float | None,
    typer.Option(help="Begin no probe after so many minutes.", min=0.1, max=flags.DAYS_MAX * 1_440),
]
OutOption = Annotated[Path | None, typer.Option(help="A new directory, with one for each probe in it.")]


def register(app: typer.Typer, run: Callable[..., None]) -> None:
    """Add the command. `run` is the command of each probe."""

    @flags.has_flags_of(run, *flags.OF_EACH_RUN)
    def search(
        *,
        by: ByOption = By.MEMBERS,
        least: FromOption = LEAST,
        most: ToOption = MOST,
        tolerance: ToleranceOption = "10%",
        threshold: ThresholdOption = None,
        seconds: SecondsOption = SECONDS,
        minutes: MinutesOption = None,
        seed: flags.Seed = None,
        out: OutOption = None,
        as_json: JsonOption = False,
        **given: Any,
    ) -> None:
        """Find the largest load that keeps all thresholds and promises.

        Loads double until one is not kept, then what is left is halved. Has the flags of `groupd swarm run`.
        Exit code 0: found; 1: a promise was broken at some load; 2: no load was kept, or it ended early.
        """
        from bench.swarm.runs import searched

        seed = SystemRandom().randrange(SEEDS) if seed is None else seed
        with mendable(BadThreshold), terminable():
            wanted = _wanted(by, threshold, given | {"seconds": seconds}, seed)
            wanted = wanted._replace(range=_range(least, most, tolerance), minutes=minutes)
            directory = out or DIRECTORY / f"{wanted.scenario.name}-searched-{run_names.stamp()}"
            found = searched.searched(run, wanted, directory, quiet=as_json)
        if as_json:
            typer.echo((directory / searched.JSON).read_text(encoding="utf-8"), nl=False)
        else:
            searched.show(found, directory)
        if found.exit_code:
            raise typer.Exit(found.exit_code)

    app.command(
        epilog=examples(
            "groupd swarm search steady --by members --from 100 --to 5000 --seconds 30 --tier 1",
            "groupd swarm search steady --by commits --from 100 --threshold 'p99(OffsetCommit) < 20ms'",
        )
    )(search)


def _wanted(by: By, threshold: list[str] | None, given: dict[str, Any], seed: int) -> Wanted:
    """Read the scenario and the flags of a search. Raises BadScenario, BadThreshold."""
    from bench.swarm.runs.bisection import Range
    from bench.swarm.runs.probes import default_thresholds
    from bench.swarm.runs.searched import Wanted

    if by == By.MEMBERS and given["members"] is not None:
        raise BadScenario("--members is what --by members searches: say --from and --to")
    if by == By.COMMITS and given["commit_interval_ms"] is not None:
        raise BadScenario("--commit-interval-ms is what --by commits searches: say --from and --to")
    chosen = scenarios.load(given["scenario"])
    if by == By.COMMITS:
        chosen = chosen.scaled(groups=given["groups"], members=given["members"])
    limits = parse_all([*chosen.thresholds.values(), *(threshold or ())])
    limits = limits or parse_all(default_thresholds(chosen))
    return Wanted(chosen, by.value, Range(LEAST, MOST), tuple(limits), given, seed)


def _range(least: int, most: int, tolerance: str) -> Any:
    """Read the range of a search. Raises BadScenario."""
    from bench.swarm.runs.bisection import Range

    if least > most:
        raise BadScenario(f"--from {least} is more than --to {most}")
    try:
        share = float(tolerance.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise BadScenario(f"--tolerance {tolerance}: a percentage above 0 is expected, as 10%")
    return Range(least, most, share)
