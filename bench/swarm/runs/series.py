"""Carries out runs of `groupd swarm run` one after the other, as `repeat` and `search` need them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from bench.swarm.runs.reports import EXIT_BROKEN, EXIT_NOT_RUN, EXITS
from bench.swarm.told import compare
from bench.swarm.told.comparison import Report
from bench.swarm.told.report import RESULTS, was_stopped
from cluster.tier_file import TierError

Run = Callable[..., None]
"""The command `groupd swarm run`, called with its flags by name."""


class Ran(NamedTuple):
    """The result of one run."""

    directory: Path
    seed: int
    exit_code: int
    report: Report | None
    """What report.json says; None: the run could not begin, or was not judged."""

    @property
    def is_whole(self) -> bool:
        """Whether it ran until its planned end, and was judged."""
        if self.report is None or was_stopped(self.report):
            return False
        return self.exit_code == EXITS.get(
            str(self.report.get("status"))
        )  # otherwise its judging was cut short


def require_new(directory: Path, holds: str) -> None:
    """Check that a directory holds no other series, whose runs would count with ours. Raises TierError."""
    if (directory / holds).exists():
        raise TierError(f"--out {directory}: there is a {holds} already; a new directory is needed")


def ran(run: Run, flags: Mapping[str, Any], directory: Path, seed: int, *, quiet: bool) -> Ran:
    """Run once, and judge the run. What it prints is shown unless `quiet`; it ends no command."""
    hidden = contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext()
    exit_code = 0
    try:
        with hidden:
            run(**flags, out=directory, seed=seed, judged=True, as_json=quiet)
    except typer.Exit as end:
        exit_code = end.exit_code
    try:
        report = compare.read(directory / RESULTS)
    except compare.NoReport:
        report = None
    return Ran(directory, seed, exit_code if report else exit_code or EXIT_NOT_RUN, report)


def worst(exit_codes: Iterable[int]) -> int:
    """The worst exit code of several runs: a broken promise is worse than one that was not shown."""
    found = set(exit_codes)
    return next((code for code in (EXIT_BROKEN, EXIT_NOT_RUN) if code in found), max(found, default=0))
