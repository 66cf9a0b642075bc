"""Carries a search out: probe after probe into one directory, until the largest load that is kept is
known."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

from bench.swarm.planning import thresholds
from bench.swarm.planning.scenario import Scenario
from bench.swarm.planning.thresholds import Threshold
from bench.swarm.runs import bisection, series
from bench.swarm.runs.bisection import Found, Range
from bench.swarm.runs.probes import UNITS, Load, Probe, load_of, probed
from bench.swarm.runs.reports import EXIT_BROKEN, EXIT_NOT_RUN
from bench.swarm.runs.series import Run
from bench.swarm.told import charts
from bench.swarm.told.page import Headline, Section, note, number, page, plots, table
from cluster.cli.common import console
from cluster.cli.tables import print_table
from storage.history.judge.findings import BROKEN, KEPT

VERSION: Final = 1
"""The version of search.json."""
JSON: Final = "search.json"
PAGE: Final = "search.html"


class Wanted(NamedTuple):
    """The load that is searched, and for how long."""

    scenario: Scenario
    by: str
    range: Range
    limits: tuple[Threshold, ...]
    flags: Mapping[str, Any]
    """The flags of all probes."""
    seed: int
    minutes: float | None = None
    """The minutes after which no probe begins; None: all begin."""

    def load(self, wanted: int) -> Load:
        """The load next to the wanted one that the scenario can have."""
        return load_of(self.scenario, self.by, wanted, self.flags.get("groups"))


class Search(NamedTuple):
    """The results so far."""

    wanted: Wanted
    probes: tuple[Probe, ...] = ()
    words: tuple[str, ...] = ()
    """Why the search ended before the answer was known."""

    @property
    def found(self) -> Found:
        return bisection.found([probe.tried for probe in self.probes])

    @property
    def exit_code(self) -> int:
        """The exit code: a broken promise is never green, whatever the answer is, and neither is a search
        without one."""
        if any(probe.is_certain for probe in self.probes):
            return EXIT_BROKEN
        return 0 if self.found.kept is not None and not self.words else EXIT_NOT_RUN


def searched(run: Run, wanted: Wanted, directory: Path, *, quiet: bool) -> Search:
    """Search. The results so far are written after every probe. Raises BadScenario, TierError, OSError, and
    typer.Exit if not even the first probe could run."""
    series.require_new(directory, JSON)
    began_s = time.monotonic()
    search = Search(wanted)
    while (load := _next(search)) is not None:
        if wanted.minutes is not None and time.monotonic() - began_s > wanted.minutes * 60:
            search = search._replace(words=(f"the {wanted.minutes:g} minutes were over",))
            break
        search = _probe(run, search, load, directory, quiet=quiet)
        _write(search, directory)
        if search.words:
            break
    _write(search, directory)
    (directory / PAGE).write_text(html(search), encoding="utf-8")
    return search


def _next(search: Search) -> int | None:
    wanted = search.wanted
    tried = [probe.tried for probe in search.probes]
    return bisection.next_load(wanted.range, tried, lambda load: wanted.load(load).value)


def _probe(run: Run, search: Search, load: int, directory: Path, *, quiet: bool) -> Search:
    wanted = search.wanted
    number_of = len(search.probes) + 1
    name = f"probe-{number_of}-{load}-{wanted.by}"
    if not quiet:
        console.print(f"\nProbe {number_of}: {load:,} {UNITS[wanted.by]}", style="bold", soft_wrap=True)
    flags = {**wanted.flags, **wanted.load(load).flags}
    try:
        ran = series.ran(run, flags, directory / name, wanted.seed, quiet=quiet)
    except KeyboardInterrupt:
        return search._replace(words=(f"probe {number_of} was interrupted",))
    if ran.report is None and number_of == 1:
        raise typer.Exit(ran.exit_code)
    if ran.report is None:
        return search._replace(words=(f"probe {number_of} could not run, or was not judged",))
    if not ran.is_whole:
        return search._replace(words=(f"probe {number_of} was stopped before its end: it does not count",))
    probe = probed(name, load, wanted.by, ran.report, wanted.limits)
    if not quiet:
        console.print(f"{_told(probe, wanted.by)}", style="bold", markup=False, soft_wrap=True)
    return search._replace(probes=(*search.probes, probe))


def _told(probe: Probe, by: str) -> str:
    because = f": {probe.because}" if probe.because else ""
    return f"{probe.load:,} {UNITS[by]} {probe.status}{because}"


def answer(search: Search) -> Iterator[str]:
    """The answer of a search, in lines."""
    unit = UNITS[search.wanted.by]
    kept, failed = search.found
    if kept is None:
        yield "No load was kept."
    else:
        yield f"The largest load that was kept: {kept.load:,} {unit}."
    if failed is not None:
        yield f"The smallest that was not: {failed.load:,} {unit}. {failed.because}"
    elif kept is not None and not search.words:
        yield f"More than --to {search.wanted.range.most:,} was not tried."
    for word in search.words:
        yield f"The search ended before its answer was known: {word}."


def headings(search: Search) -> tuple[str, ...]:
    """The headings of the table of probes."""
    limits = (limit.text for limit in search.wanted.limits)
    return (
        "PROBE",
        UNITS[search.wanted.by].upper(),
        "RESULT",
        "REQUESTS/S",
        "COMMITS/S",
        "SWARM'S CORE",
        *limits,
    )


def rows(search: Search) -> list[tuple[str, ...]]:
    """A row for each probe, in the order of the loads."""
    return [
        (
            str(place),
            f"{probe.load:,}",
            probe.status,
            number(probe.requests_s),
            number(probe.commits_s),
            "-" if probe.busy is None else f"{probe.busy:.0%}",
            *(_figure(checked) for checked in probe.checked),
        )
        for place, probe in sorted(enumerate(search.probes, 1), key=lambda item: (item[1].load, item[0]))
    ]


def _figure(checked: thresholds.Checked) -> str:
    if checked.found is None:
        return "-"
    unit = f" {checked.unit}" if checked.unit == "ms" else checked.unit
    mark = " !" if checked.status == BROKEN else ""
    return f"{number(float(checked.found)) if checked.unit else f'{checked.found:,.0f}'}{unit}{mark}"


def show(search: Search, directory: Path) -> None:
    """Show it on a terminal; a pipe gets the same lines."""
    typer.echo("")
    print_table(console, headings(search), rows(search))
    for line in answer(search):
        typer.echo(line)
    typer.echo(f"Report: {directory / PAGE}")


def plain(search: Search) -> dict[str, Any]:
    """Return it as plain values for search.json."""
    wanted = search.wanted
    kept, failed = search.found
    return {
        "version": VERSION,
        "scenario": wanted.scenario.name,
        "command": shlex.join(["groupd", *sys.argv[1:]]),
        "by": wanted.by,
        "from": wanted.range.least,
        "to": wanted.range.most,
        "tolerance": wanted.range.tolerance,
        "seed": wanted.seed,
        "thresholds": [limit.text for limit in wanted.limits],
        "kept": kept and kept.load,
        "failed": failed and failed.load,
        "failed_because": failed and failed.because,
        "words": list(search.words),
        "probes": [probe.plain() for probe in search.probes],
    }


def _write(search: Search, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    beside = directory / f"{JSON}.new"
    beside.write_text(json.dumps(plain(search), indent=2) + "\n", encoding="utf-8")
    beside.replace(directory / JSON)


def html(search: Search) -> str:
    """The results as one page that needs nothing else."""
    wanted = search.wanted
    told = list(answer(search))
    about = f"{wanted.scenario.name}, {', '.join(limit.text for limit in wanted.limits)}"
    headline = Headline(f"Searched: {told[0]}", about, words=told[1:])
    small = "Green: the load was kept. Red: it was not. Dashed: the threshold. !: it was missed."
    because = [(str(place), _told(probe, wanted.by)) for place, probe in enumerate(search.probes, 1)]
    return page(
        headline,
        [
            Section("By load", plots(_drawings(search)) + note(small)),
            Section("Probes", table(headings(search), rows(search))),
            Section("One after the other", table(("probe", "what became of it"), because, text=(1,))),
        ],
    )


def _drawings(search: Search) -> Iterator[str]:
    unit = UNITS[search.wanted.by]
    for place, limit in enumerate(search.wanted.limits):
        points = [
            (float(probe.load), float(found), charts.GREEN if probe.status == KEPT else charts.RED)
            for probe in search.probes
            if (found := probe.checked[place].found) is not None
        ]
        if points:
            yield charts.against(limit.text, unit, points, limit.limit)
