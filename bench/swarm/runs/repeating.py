"""`groupd swarm repeat` runs the same swarm several times, and shows how far its figures differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Any, Final

import typer

from bench.ground import run_names
from bench.ground.interrupts import terminable
from bench.swarm.runs import flags
from bench.swarm.runs.reports import mendable
from bench.swarm.runs.running import DIRECTORY, SEEDS
from cluster.cli.common import JsonOption, examples

TIMES: Final = 5

TimesOption = Annotated[int, typer.Option("--times", "-n", help="How many runs.", min=1, max=1_000)]
SameSeedOption = Annotated[
    bool, typer.Option("--same-seed", help="All runs have the same plan; otherwise each has the next seed.")
]
OutOption = Annotated[Path | None, typer.Option(help="A new directory, with one for each run in it.")]


def register(app: typer.Typer, run: Callable[..., None]) -> None:
    """Add the command. `run` is the command that is repeated."""

    @flags.has_flags_of(run, *flags.OF_EACH_RUN)
    def repeat(
        *,
        times: TimesOption = TIMES,
        same_seed: SameSeedOption = False,
        seed: flags.Seed = None,
        out: OutOption = None,
        as_json: JsonOption = False,
        **given: Any,
    ) -> None:
        """Run a swarm several times: medians, spread and each verdict. Exit code: that of the worst run.

        Has all flags of `groupd swarm run`. A throw-away tier is a new one for each run. Ctrl-C ends the
        runs: those that were finished count.
        """
        from bench.swarm.runs import repeated

        seed = SystemRandom().randrange(SEEDS) if seed is None else seed
        seeds = [seed if same_seed else seed + number for number in range(times)]
        scenario = Path(given["scenario"]).stem
        with mendable(), terminable():
            directory = out or DIRECTORY / f"{scenario}-repeated-{run_names.stamp()}"
            found = repeated.repeated(run, given, directory, seeds, quiet=as_json)
        if as_json:
            typer.echo((directory / repeated.JSON).read_text(encoding="utf-8"), nl=False)
        else:
            repeated.show(found, directory)
        if code := repeated.exit_code(found):
            raise typer.Exit(code)

    app.command(
        epilog=examples(
            "groupd swarm repeat steady -n 5 --seconds 60 --tier 1",
            "groupd swarm repeat rolling-deploy -n 10 --same-seed --bootstrap kafka-1:9092",
        )
    )(repeat)
